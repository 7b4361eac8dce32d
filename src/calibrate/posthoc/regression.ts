import type { PosthocStatus } from './method';
import { type Change, independent, minimise, type Objective, type SearchOptions, solve } from './newton';

/** What the labels ask for: label y wants probability own[y] for itself and other[y] for each other class. */
export interface Targets {
  own: Float64Array;
  other: Float64Array;
}

/** A logistic or softmax regression whose NLL is to be minimised. */
export interface Regression {
  /** Rows of each class. */
  counts: readonly number[];
  /** Whether no score differs between rows. */
  constant: boolean;
  /** How many directions of the parameters the loss can tell apart at most. */
  rank: number;
  /** The parameters that change nothing. */
  identity: Float64Array;
  /** The least value of each parameter. */
  lower?: readonly number[];
  /** The mean loss over every `stride`-th row. */
  objective(targets: Targets, stride: number): Objective;
}

export interface RegressionOptions {
  targets?: 'labels' | 'smoothed';
  maxIterations?: number;
}

/** Above this many rows a search starts from where one over every k-th row ended, which saves more than half the time. */
const MANY_ROWS = 20_000;
const SAMPLE_ROWS = 5_000;
/** Scores that deviate by less than this share of their size are constant but for rounding. */
export const CONSTANT = 1e-12;
/** A difference of losses that is rounding. */
const FOR_FREE = 1e-12;

/** How far, of the largest change, a label may fall behind along a direction that separates: rounding. */
const FOREVER_ROUNDING = 1e-8;

/**
 * A step by what it does to the log-odds of labels against other classes: where none falls, and some rise, it separates
 * the classes, and the NLL falls along it for ever (Albert and Anderson 1984).
 */
export function gain(least: number, most: number, { other }: Targets): Change {
  const hard = other.every((t) => t === 0);
  return { largest: Math.max(-least, most), forever: hard && most > 0 && least >= -FOREVER_ROUNDING * most };
}

/** Targets that are the labels themselves. */
export function hardTargets(classes: number): Targets {
  return { own: new Float64Array(classes).fill(1), other: new Float64Array(classes) };
}

/**
 * Platt's (1999) targets, for any number of classes K: as if, beside the n_y rows of label y, one row with the same
 * scores had each of the K labels: (n_y + 1) / (n_y + K) for y, 1 / (n_y + K) for another. No target is 0 or 1, so that
 * there always is a minimum.
 */
export function smoothedTargets(counts: readonly number[]): Targets {
  const k = counts.length;
  return {
    own: Float64Array.from(counts, (n) => (n + 1) / (n + k)),
    other: Float64Array.from(counts, (n) => 1 / (n + k)),
  };
}

const rowsOf = (counts: readonly number[]) => counts.reduce((a, b) => a + b, 0);

const strideOf = (rows: number) => (rows > MANY_ROWS ? Math.ceil(rows / SAMPLE_ROWS) : 1);

/** The loss's Hessian where all parameters are 0: what it tells apart is the same at all parameters. */
function flatHessian(regression: Regression, targets: Targets, stride: number): Float64Array {
  const size = regression.identity.length;
  const hessian = new Float64Array(size * size);
  regression.objective(targets, stride).at(new Float64Array(size), new Float64Array(size), hessian);
  return hessian;
}

/** The minimum over all rows, started from that over some where there are many, and with the Hessian there. */
function search(regression: Regression, targets: Targets, options: SearchOptions & { among: number[] }) {
  const stride = strideOf(rowsOf(regression.counts));
  const start = new Float64Array(regression.identity.length);
  const sample = stride > 1 ? minimise(regression.objective(targets, stride), start, options) : null;
  const all = regression.objective(targets, 1);
  if (sample?.status !== 'converged') return minimise(all, start, options);
  // Where the sample's labels are all but certain, its Hessian may not tell apart what that of all rows does.
  const whole = independent(sample.hessian, start.length).length === options.among.length;
  return minimise(all, sample.x, { ...options, hessian: whole ? sample.hessian : undefined });
}

/**
 * The parameters of least NLL, from Newton's method; see `PosthocStatus` for what they are where there is no minimum,
 * or more than one.
 */
export function fitRegression(
  regression: Regression,
  { targets: wanted, maxIterations }: RegressionOptions = {},
): { status: PosthocStatus; x: Float64Array } {
  const { identity, lower, counts } = regression;
  const size = identity.length;
  let targets = wanted === 'smoothed' ? smoothedTargets(counts) : hardTargets(counts.length);
  const stride = strideOf(rowsOf(counts));
  let hessian = flatHessian(regression, targets, stride);
  let among = independent(hessian, size);
  if (stride > 1 && among.length < regression.rank) {
    hessian = flatHessian(regression, targets, 1);
    among = independent(hessian, size);
  }
  const options = { lower, among, maxIterations };
  let found = search(regression, targets, options);
  const unbounded = found.status === 'unbounded';
  if (unbounded) {
    targets = smoothedTargets(counts);
    found = search(regression, targets, options);
  }
  const undetermined = among.length < regression.rank;
  let { x, status } = found;
  if (undetermined || status !== 'converged') {
    const loss = regression.objective(targets, 1);
    const moved = undetermined ? nearest(x, identity, hessian) : x;
    const inside = !lower?.some((least, a) => moved[a]! < least);
    if (inside && loss.at(moved) <= loss.at(x) + FOR_FREE) x = moved;
    if (loss.at(identity) < loss.at(x) - FOR_FREE) [x, status] = [identity, 'not-converged'];
  }
  const say = (): PosthocStatus => {
    if (status !== 'converged') return 'not-converged';
    if (counts.includes(0)) return 'class-absent';
    if (unbounded) return 'separable';
    if (regression.constant) return 'constant-scores';
    return undetermined ? 'under-determined' : 'converged';
  };
  return { status: say(), x };
}

/** Of the parameters that are as good as x, the nearest to the identity: the identity, moved by what H sees of x. */
function nearest(x: Float64Array, identity: Float64Array, hessian: Float64Array): Float64Array {
  const size = x.length;
  const seen = new Float64Array(size);
  for (let a = 0; a < size; a++) {
    for (let b = 0; b < size; b++) {
      const entry = a >= b ? hessian[a * size + b]! : hessian[b * size + a]!;
      seen[a]! += entry * (x[b]! - identity[b]!);
    }
  }
  const step = solve(
    hessian,
    seen,
    Array.from(x, (_, a) => a),
  );
  return identity.map((from, a) => from + step[a]!);
}
