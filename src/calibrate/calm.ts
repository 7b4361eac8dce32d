import { Random } from '../engine/random';
import { bomeStep, type BilevelProblem } from '../train/bome';
import type { Example } from '../train/examples';
import type { Method } from '../train/loop';
import {
  batchesOf,
  choicesOf,
  dropoutOf,
  fixed,
  measureOn,
  named,
  pace,
  small,
  stateOf,
  tokensOf,
  type Context,
} from './context';
import { crossEntropy, negativeEntropy } from './criterion';
import { displacement, type Head } from './head';
import { objective } from './objective';
import type { CalmOptions } from './options';
import { twoLevels } from './two-levels';

/**
 * CALM (the seed paper's Algorithm 1) as a method of the training loop: each step runs T inner steps on as many training
 * batches, takes BOME's direction for the head above and the adapter below, and updates both.
 */
export function calm(context: Context<CalmOptions>): Method {
  const { model, train, validation, lora, options } = context;
  const { batch, innerSteps, epochs, seed } = options;
  const random = Random.seed(seed);
  // One outer step per T training batches, unless said otherwise: then each epoch sees the training set about once.
  const perEpoch = options.outerPerEpoch ?? Math.max(1, Math.ceil(train.length / (batch * Math.max(1, innerSteps))));
  const choices = choicesOf(context);
  const trainRows = batchesOf(train, batch, random.stream('train'), choices);
  const validationRows = batchesOf(validation, batch, random.stream('validation'), choices);
  const common = { choices, reduction: options.reduction, batchTokens: options.batchTokens };

  const step: Method['step'] = (k, { head, adapter }, onPass) => {
    let tokens = 0;
    const inner = (t: number) => trainRows(k * Math.max(1, innerSteps) + t);
    const upper = validationRows(k);
    const counted = (rows: readonly Example[]) => {
      tokens += tokensOf(rows);
      return rows;
    };
    const problem: BilevelProblem = {
      lower: (alpha, theta, t, wanted) => {
        const state = stateOf(lora, { head: alpha, adapter: theta });
        // The same masks at theta and theta~ on one batch, so that their difference is the inner steps' doing.
        const dropout = dropoutOf(lora, random, `${k} ${t}`);
        const found = objective(crossEntropy, model, state, counted(inner(t)), wanted, { ...common, dropout });
        onPass();
        return found;
      },
      upper: (alpha, theta) => {
        const state = stateOf(lora, { head: alpha, adapter: theta });
        const both = { alpha: true, theta: true };
        const found = objective(negativeEntropy, model, state, counted(upper), both, common);
        onPass();
        return found;
      },
    };
    const { direction, ...found } = bomeStep(problem, head, adapter, {
      innerSteps,
      innerRate: options.lowerRate,
      gamma: options.gamma,
      residual: options.residual,
      barrier: options.barrier,
    });
    return {
      direction: { head: direction.alpha, adapter: direction.theta },
      numbers: {
        loss: found.innerLosses[0]!,
        inner_loss: found.innerLosses.at(-1)!,
        entropy: -found.upperLoss,
        lambda: found.lambda,
        residual: found.residual,
        residual_norm: Math.sqrt(found.residualNormSquared),
        dot: found.dot,
        ...displacement(head as Head),
      },
      tokens,
      rows: `training ${named(inner(0))}`,
    };
  };

  return {
    ...twoLevels(context),
    steps: epochs * perEpoch,
    warmupSteps: Math.min(options.warmupEpochs, epochs) * perEpoch,
    passes: innerSteps + 2,
    step,
    describe: (n) =>
      `loss ${fixed(n['loss'])}, entropy ${fixed(n['entropy'])}, lambda ${fixed(n['lambda'])}, ` +
      `|d-1| ${small(n['d_displacement'])}, |l| ${small(n['l_displacement'])}, ${pace(n)}`,
    validation: { every: perEpoch, measure: measureOn(context) },
  };
}
