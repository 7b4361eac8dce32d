import { CalmError, UsageError } from '../../base/errors';
import { ownCurvature, sharedCurvature } from './curvature';
import { classesOf, type Data } from './method';
import type { Objective } from './newton';
import { CONSTANT, gain, type Targets } from './regression';
import { logitsOf, rowAt } from './rows';

/** Beyond this many parameters a Hessian takes too long. */
const MOST_PARAMETERS = 1000;
/** Larger logits than this have squares that are no doubles when summed. */
const LARGEST_LOGIT = 1e100;

/** The logits of n rows as K columns of mean 0 and deviation 1: conditioning, and a start at 0 that fits every scale. */
export interface Columns {
  n: number;
  classes: number;
  /** n x K. */
  values: Float64Array;
  labels: readonly number[];
  mean: Float64Array;
  /** 1 for a constant column, whose values are all 0. */
  deviation: Float64Array;
  constant: boolean[];
}

/** @throws CalmError on rows of different lengths, and on logits beyond 1e100 */
export function standardise(data: Data): Columns {
  const classes = classesOf(data);
  const { labels } = data.predictions;
  const n = labels.length;
  const values = new Float64Array(n * classes);
  const mean = new Float64Array(classes);
  const largest = new Float64Array(classes);
  for (let i = 0; i < n; i++) {
    const z = logitsOf(rowAt(data, i));
    for (let k = 0; k < classes; k++) {
      if (!(Math.abs(z[k]!) <= LARGEST_LOGIT)) {
        throw new CalmError(`${data.where(i)}: logits[${k}] is ${z[k]}, too large to be scaled`, {
          remedy: 'leave out options that are masked',
        });
      }
      values[i * classes + k] = z[k]!;
      mean[k]! += z[k]! / n;
      largest[k] = Math.max(largest[k]!, Math.abs(z[k]!));
    }
  }
  const variance = new Float64Array(classes);
  for (let i = 0; i < values.length; i += classes) {
    for (let k = 0; k < classes; k++) variance[k]! += (values[i + k]! - mean[k]!) ** 2 / n;
  }
  const constant = Array.from(variance, (v, k) => Math.sqrt(v) <= CONSTANT * largest[k]!);
  const deviation = variance.map((v, k) => (constant[k] ? 1 : Math.sqrt(v)));
  for (let i = 0; i < values.length; i += classes) {
    for (let k = 0; k < classes; k++) values[i + k] = constant[k] ? 0 : (values[i + k]! - mean[k]!) / deviation[k]!;
  }
  return { n, classes, values, labels, mean, deviation, constant };
}

/** Rows of each class. */
export function countLabels({ classes, labels }: Columns): number[] {
  const counts = new Array<number>(classes).fill(0);
  for (const label of labels) counts[label]!++;
  return counts;
}

/**
 * The mean cross-entropy of softmax(s) over every `stride`-th row, where s_k = sum over a of x[k, a] * input and the last
 * input is 1. Parameters lie class after class.
 * @param inputs the columns that each class is made from, equally many for all
 * @throws UsageError on more than 1,000 parameters
 */
export function softmaxLoss(
  columns: Columns,
  inputs: readonly number[][],
  targets: Targets,
  stride: number,
): Objective {
  const { n, classes, values, labels } = columns;
  const width = inputs[0]!.length + 1;
  const size = classes * width;
  if (size > MOST_PARAMETERS) {
    throw new UsageError(`there are ${size} parameters for ${classes} classes`, {
      remedy: `at most ${MOST_PARAMETERS} are fitted; temperature and ets have few`,
    });
  }
  const rows = Math.ceil(n / stride);
  const from = Int32Array.from(inputs.flatMap((list) => [...list, -1]));
  const input = new Float64Array(size).fill(1);
  const scores = new Float64Array(classes);
  const p = new Float64Array(classes);

  const score = (i: number, x: Float64Array) => {
    for (let k = 0, at = 0; k < classes; k++) {
      let sum = 0;
      for (let a = 0; a < width; a++, at++) {
        if (from[at]! >= 0) input[at] = values[i * classes + from[at]!]!;
        sum += x[at]! * input[at]!;
      }
      scores[k] = sum;
    }
  };
  const shared = inputs.every((list) => list.every((column, a) => column === inputs[0]![a]));
  const curvature = shared ? sharedCurvature(classes, width) : ownCurvature(classes, width);

  return {
    size,
    at(x, gradient, hessian) {
      let value = 0;
      curvature.clear();
      for (let i = 0; i < n; i += stride) {
        score(i, x);
        let max = -Infinity;
        for (let k = 0; k < classes; k++) max = Math.max(max, scores[k]!);
        let sum = 0;
        for (let k = 0; k < classes; k++) sum += p[k] = Math.exp(scores[k]! - max);
        const label = labels[i]!;
        value += max + Math.log(sum);
        for (let k = 0; k < classes; k++) {
          const target = (k === label ? targets.own : targets.other)[label]!;
          value -= target * scores[k]!;
          if (!gradient) continue;
          p[k]! /= sum;
          const rest = (p[k]! - target) / rows;
          for (let at = k * width; at < (k + 1) * width; at++) gradient[at]! += rest * input[at]!;
        }
        if (hessian) curvature.add(p, input);
      }
      if (hessian) curvature.write(hessian, rows);
      return value / rows;
    },
    change(d) {
      let [least, most] = [Infinity, -Infinity];
      for (let i = 0; i < n; i += stride) {
        score(i, d);
        const own = scores[labels[i]!]!;
        for (let k = 0; k < classes; k++) {
          if (k === labels[i]) continue;
          least = Math.min(least, own - scores[k]!);
          most = Math.max(most, own - scores[k]!);
        }
      }
      return gain(least, most, targets);
    },
  };
}
