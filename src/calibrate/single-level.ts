import { tf } from '../engine/backend';
import { Random } from '../engine/random';
import { map, type Tree } from '../engine/tree';
import type { Method } from '../train/loop';
import {
  batchesOf,
  choicesOf,
  dropoutOf,
  fixed,
  measureOn,
  named,
  pace,
  stateOf,
  tokensOf,
  type Context,
} from './context';
import type { Criterion } from './criterion';
import { objective } from './objective';
import type { SingleLevelOptions } from './options';

/** What a single-level method adds to fine-tuning. */
export interface SingleLevelLoss {
  /**
   * The criterion of a step, and what it leaves behind once it has been taken: numbers for the log, and what is carried
   * to the next step.
   */
  at: (carried: Tree) => { criterion: Criterion; after?: () => { numbers?: Record<string, number>; carried?: Tree } };
  /** What is carried into the first step, and saved with checkpoints. */
  carried?: Tree;
}

/** Fine-tuning of a LoRA adapter by one criterion, with a learning rate that warms up and falls as a cosine. */
export function singleLevel(context: Context<SingleLevelOptions>, loss: SingleLevelLoss): Method {
  const { model, train, lora, options, identity } = context;
  const { batch, epochs, seed, reduction, batchTokens } = options;
  const random = Random.seed(seed);
  const choices = choicesOf(context);
  const perEpoch = Math.ceil(train.length / batch);
  const rowsOf = batchesOf(train, batch, random.stream('train'), choices);
  return {
    identity,
    steps: epochs * perEpoch,
    warmupSteps: Math.min(options.warmupEpochs, epochs) * perEpoch,
    variables: { adapter: context.adapter, ...(loss.carried !== undefined && { carried: loss.carried }) },
    groups: { adapter: { rate: options.rate, weightDecay: options.weightDecay } },
    optimiser: { optimiser: options.optimiser },
    clipNorm: options.clipNorm,
    passes: 1,
    step: (k, { adapter, carried }, onPass) => {
      const rows = rowsOf(k);
      const { criterion, after } = loss.at(carried);
      const dropout = dropoutOf(lora, random, String(k));
      const found = objective(
        criterion,
        model,
        stateOf(lora, { adapter }),
        rows,
        { alpha: false, theta: true },
        { choices, reduction, batchTokens, dropout },
      );
      onPass();
      const left = after?.();
      return {
        direction: { adapter: found.theta },
        numbers: { loss: found.loss, ...left?.numbers },
        ...(left?.carried !== undefined && { carried: { carried: left.carried } }),
        tokens: tokensOf(rows),
        rows: `training ${named(rows)}`,
      };
    },
    project: ({ adapter, ...rest }) => ({
      ...rest,
      adapter: map(adapter, (leaf) => tf.clipByValue(leaf, -options.clip, options.clip)),
    }),
    describe: (n) => `loss ${fixed(n['loss'])}, ${pace(n)}`,
    mostLoss: 3 * Math.log(model.config.vocabSize),
    validation: { every: perEpoch, measure: measureOn(context) },
  };
}
