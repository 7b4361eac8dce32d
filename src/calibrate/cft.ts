import { tf, type Tensor } from '../engine/backend';
import type { Method } from '../train/loop';
import { amongOf, baseSureness, binAccuracies, binOf, type Context } from './context';
import { confidenceTowards, crossEntropy, weightedSum, type Seen } from './criterion';
import type { MethodOptions } from './options';
import { singleLevel } from './single-level';

/**
 * Calibration-aware fine-tuning (C.2 of the CALM paper): (1 - a) CE + a c L_cal, where L_cal is the mean squared gap
 * between an answer's confidence and the accuracy of its bin, from above and from below, in every bin. Accuracies are
 * those of the base model on the training set (`frozen`), or of the model as it learns (`fresh`): of about the last
 * epoch's answers, the batch's own among them.
 */
export function cft(context: Context<MethodOptions<'cft'>>): Method {
  const { calibrationWeight: a, calibrationScale: c, bins, accuracies, batch } = context.options;
  const among = amongOf(context);
  const lossOf = (targetOf: (seen: Seen) => number[]) =>
    weightedSum([1 - a, crossEntropy], [a * c, confidenceTowards(targetOf, among)]);
  if (accuracies === 'frozen') {
    const known = binAccuracies(baseSureness(context), bins);
    // A bin that was empty before says nothing, and pulls nowhere.
    const criterion = lossOf(({ confidence }) => Array.from(confidence, (p) => orSelf(known[binOf(p, bins)]!, p)));
    return singleLevel(context, { at: () => ({ criterion }) });
  }
  const kept = Math.max(0, 1 - batch / context.train.length);
  return singleLevel(context, {
    carried: tf.zeros([2, bins]), // answers and right ones by bin
    at: (carried) => {
      const [all, right] = (carried as Tensor).arraySync() as [number[], number[]];
      for (let i = 0; i < bins; i++) [all[i], right[i]] = [all[i]! * kept, right[i]! * kept];
      const criterion = lossOf(({ confidence, correct }) => {
        confidence.forEach((p, row) => {
          all[binOf(p, bins)]!++;
          if (correct[row]) right[binOf(p, bins)]!++;
        });
        return Array.from(confidence, (p) => right[binOf(p, bins)]! / all[binOf(p, bins)]!);
      });
      return { criterion, after: () => ({ carried: tf.tensor2d([all, right]) }) };
    },
  });
}

const orSelf = (accuracy: number, confidence: number) => (Number.isNaN(accuracy) ? confidence : accuracy);
