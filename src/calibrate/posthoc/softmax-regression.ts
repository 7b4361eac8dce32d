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

/** What scores are made from: each class's inputs u, `step` apart, and the columns they come from, -1 for a 1. */
interface Inputs {
  u: Float64Array;
  step: number;
  from: Int32Array;
}

// Loops are apart from the closures that use them: those would look up an array at each use, and take half as long again.

/** Fills in u of the row that begins at `start`, and its scores x u. */
function score(values: Float64Array, start: number, x: Float64Array, { u, step, from }: Inputs, scores: Float64Array) {
  const width = x.length / scores.length;
  for (let a = 0; a < from.length; a++) if (from[a]! >= 0) u[a] = values[start + from[a]!]!;
  for (let k = 0, at = 0; k < scores.length; k++) {
    let sum = 0;
    for (let a = k * step, end = a + width; a < end; a++, at++) sum += x[at]! * u[a]!;
    scores[k] = sum;
  }
}

/** Adds a row's slopes, those by its scores being `rest`. */
function addGradient(gradient: Float64Array, rest: Float64Array, { u, step }: Inputs) {
  const width = gradient.length / rest.length;
  for (let k = 0, at = 0; k < rest.length; k++) {
    const by = rest[k]!;
    for (let a = k * step, end = a + width; a < end; a++, at++) gradient[at]! += by * u[a]!;
  }
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
  const shared = inputs.every((list) => list.every((column, a) => column === inputs[0]![a]));
  const from = Int32Array.from((shared ? inputs.slice(0, 1) : inputs).flatMap((list) => [...list, -1]));
  const row: Inputs = { u: new Float64Array(from.length).fill(1), step: shared ? 0 : width, from };
  const curvature = shared ? sharedCurvature(classes, width) : ownCurvature(classes, width);
  const scores = new Float64Array(classes);
  const p = new Float64Array(classes);
  const rest = new Float64Array(classes);

  return {
    size,
    at(x, gradient, hessian) {
      let value = 0;
      gradient?.fill(0);
      curvature.clear();
      for (let i = 0; i < n; i += stride) {
        score(values, i * classes, x, row, scores);
        let max = -Infinity;
        for (let k = 0; k < classes; k++) max = Math.max(max, scores[k]!);
        let sum = 0;
        for (let k = 0; k < classes; k++) sum += p[k] = Math.exp(scores[k]! - max);
        value += max + Math.log(sum);
        const label = labels[i]!;
        for (let k = 0; k < classes; k++) {
          const target = (k === label ? targets.own : targets.other)[label]!;
          value -= target * scores[k]!;
          p[k]! /= sum;
          rest[k] = p[k]! - target;
        }
        if (gradient) addGradient(gradient, rest, row);
        if (hessian) curvature.add(p, row.u);
      }
      gradient?.forEach((total, at) => (gradient[at] = total / rows));
      if (hessian) curvature.write(hessian, rows);
      return value / rows;
    },
    change(d) {
      let [least, most] = [Infinity, -Infinity];
      for (let i = 0; i < n; i += stride) {
        score(values, i * classes, d, row, scores);
        const label = labels[i]!;
        for (let k = 0; k < classes; k++) {
          if (k === label) continue;
          least = Math.min(least, scores[label]! - scores[k]!);
          most = Math.max(most, scores[label]! - scores[k]!);
        }
      }
      return gain(least, most, targets);
    },
  };
}
