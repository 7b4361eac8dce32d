import type { PosthocStatus } from './method';
import type { Objective } from './newton';
import { CONSTANT, fitRegression, gain, type RegressionOptions, type Targets } from './regression';

export interface LogisticFit {
  status: PosthocStatus;
  /** Of each feature. */
  weights: number[];
  intercept: number;
}

export interface LogisticOptions extends RegressionOptions {
  /** Whether weights below 0 are refused. */
  nonnegative?: boolean;
}

/** One or two columns of n finite values. */
export type Features = readonly [Float64Array] | readonly [Float64Array, Float64Array];

/** The mean cross-entropy of sigmoid(x_0 first + x_1 second + x_2) over every `stride`-th row. */
function logisticLoss(
  first: Float64Array,
  second: Float64Array,
  outcomes: Uint8Array,
  { own, other }: Targets,
  stride: number,
): Objective {
  const n = outcomes.length;
  const rows = Math.ceil(n / stride);
  return {
    size: 3,
    at([x0 = 0, x1 = 0, x2 = 0], gradient, hessian) {
      let [value, g0, g1, g2] = [0, 0, 0, 0];
      let [h00, h10, h11, h20, h21, h22] = [0, 0, 0, 0, 0, 0];
      for (let i = 0; i < n; i += stride) {
        const [u, v] = [first[i]!, second[i]!];
        const s = x0 * u + x1 * v + x2;
        const target = outcomes[i] ? own[1]! : other[0]!;
        const small = Math.exp(-Math.abs(s));
        const large = 1 / (1 + small);
        value += Math.log1p(small) + Math.max(s, 0) - target * s;
        const rest = (s >= 0 ? large : small * large) - target;
        g0 += rest * u;
        g1 += rest * v;
        g2 += rest;
        const c = small * large * large;
        h00 += c * u * u;
        h10 += c * u * v;
        h11 += c * v * v;
        h20 += c * u;
        h21 += c * v;
        h22 += c;
      }
      [g0, g1, g2].forEach((sum, a) => gradient && (gradient[a] = sum / rows));
      [h00, 0, 0, h10, h11, 0, h20, h21, h22].forEach((sum, a) => hessian && (hessian[a] = sum / rows));
      return value / rows;
    },
    change([d0 = 0, d1 = 0, d2 = 0]) {
      let [least, most] = [Infinity, -Infinity];
      for (let i = 0; i < n; i += stride) {
        const s = d0 * first[i]! + d1 * second[i]! + d2;
        const gained = outcomes[i] ? s : -s;
        if (gained < least) least = gained;
        if (gained > most) most = gained;
      }
      return gain(least, most, { own, other });
    },
  };
}

/** A feature at mean 0 and deviation 1; where it does not vary but by rounding, all 0, with a deviation of 1. */
function standardise(values: Float64Array): {
  mean: number;
  deviation: number;
  constant: boolean;
  column: Float64Array;
} {
  const n = values.length;
  let [mean, variance, largest] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    mean += values[i]! / n;
    largest = Math.max(largest, Math.abs(values[i]!));
  }
  for (let i = 0; i < n; i++) variance += (values[i]! - mean) ** 2 / n;
  const constant = Math.sqrt(variance) <= CONSTANT * largest;
  const deviation = constant ? 1 : Math.sqrt(variance);
  const column = new Float64Array(n);
  if (!constant) for (let i = 0; i < n; i++) column[i] = (values[i]! - mean) / deviation;
  return { mean, deviation, constant, column };
}

/**
 * Logistic regression without a penalty: the weights and intercept of least mean NLL of outcomes 0 or 1. Weights of 1 and
 * an intercept of 0 are what changes nothing.
 */
export function fitLogistic(
  features: Features,
  outcomes: Uint8Array,
  { nonnegative = false, ...options }: LogisticOptions = {},
): LogisticFit {
  const n = outcomes.length;
  const used = features.map(standardise);
  // A second feature that is 0 everywhere has no part in anything.
  const [first, second = { mean: 0, deviation: 1, constant: true, column: new Float64Array(n) }] = used;
  const both = [first!, second];
  const ones = outcomes.reduce((sum, outcome) => sum + outcome, 0);
  const { status, x } = fitRegression(
    {
      counts: [n - ones, ones],
      constant: both.every(({ constant }) => constant),
      rank: used.length + 1,
      identity: Float64Array.from([...both.map(({ deviation }) => deviation), first!.mean + second.mean]),
      lower: nonnegative ? [0, 0, -Infinity] : undefined,
      objective: (targets, stride) => logisticLoss(first!.column, second.column, outcomes, targets, stride),
    },
    options,
  );
  const weights = used.map(({ deviation }, a) => x[a]! / deviation);
  return { status, weights, intercept: weights.reduce((sum, w, a) => sum - w * used[a]!.mean, x[2]!) };
}

/** sigmoid(s), or with `other` 1 - sigmoid(s), neither rounded to 0 before it must be. */
export function sigmoid(s: number, other = false): number {
  const x = other ? -s : s;
  const small = Math.exp(-Math.abs(x));
  return (x >= 0 ? 1 : small) / (1 + small);
}
