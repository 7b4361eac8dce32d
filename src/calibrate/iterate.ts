import { Random } from '../engine/random';
import type { Method, Step } from '../train/loop';
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
import { crossEntropy, negativeEntropy, negativeSelfLabel, weightedSum } from './criterion';
import { displacement, type Head } from './head';
import { objective } from './objective';
import type { MethodOptions } from './options';
import { twoLevels } from './two-levels';

/**
 * Iterate (C.2 of the CALM paper): each epoch takes `lowerSteps` steps of the adapter on cross-entropy with the head
 * fixed, then one step of the head on 0.9 CE(y, p) - CE(p', p), p' the model's own prediction, on validation examples with
 * the adapter fixed. Nothing couples the two.
 */
export function iterate(context: Context<MethodOptions<'iterate'>>): Method {
  const { model, train, validation, lora, options } = context;
  const { batch, epochs, lowerSteps, seed, reduction, batchTokens } = options;
  const random = Random.seed(seed);
  const choices = choicesOf(context);
  const cycle = lowerSteps + 1;
  const lowerRows = batchesOf(train, batch, random.stream('train'), choices);
  const upperRows = batchesOf(validation, batch, random.stream('validation'), choices);
  const confident = options.self === 'soft' ? negativeEntropy : negativeSelfLabel;
  const upper = weightedSum([options.upperTask, crossEntropy], [1, confident]);
  const common = { choices, reduction, batchTokens };
  return {
    ...twoLevels(context),
    steps: epochs * cycle,
    warmupSteps: Math.min(options.warmupEpochs, epochs) * cycle,
    passes: 1,
    step: (k, { head, adapter }, onPass): Step => {
      const epoch = Math.floor(k / cycle);
      const isUpper = k % cycle === lowerSteps;
      const rows = isUpper ? upperRows(epoch) : lowerRows(k - epoch);
      const state = stateOf(lora, { head, adapter });
      const found = isUpper
        ? objective(upper, model, state, rows, { alpha: true, theta: false }, common)
        : objective(
            crossEntropy,
            model,
            state,
            rows,
            { alpha: false, theta: true },
            { ...common, dropout: dropoutOf(lora, random, String(k)) },
          );
      onPass();
      return {
        direction: isUpper ? { head: found.alpha } : { adapter: found.theta },
        // Each group has made as many steps as it was updated.
        updates: isUpper ? { head: epoch + 1 } : { adapter: k - epoch + 1 },
        numbers: { ...(isUpper ? { upper_loss: found.loss } : { loss: found.loss }), ...displacement(head as Head) },
        tokens: tokensOf(rows),
        rows: named(rows),
      };
    },
    describe: (n) => `loss ${fixed(n['loss'])}, |d-1| ${small(n['d_displacement'])}, ${pace(n)}`,
    validation: { every: cycle, measure: measureOn(context) },
  };
}
