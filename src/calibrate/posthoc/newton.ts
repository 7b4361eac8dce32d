/** A convex, twice differentiable function. */
export interface Objective {
  size: number;
  /** The value at x. The gradient and the Hessian (size x size, row by row, its lower triangle) are filled where given. */
  at(x: Float64Array, gradient?: Float64Array, hessian?: Float64Array): number;
  /** What a step d from x does to everything that the value depends on. */
  change(d: Float64Array, x: Float64Array): Change;
}

export interface Change {
  /** The largest change, such as of a log-odds, in units in which 1 is much and 1e-7 nothing. */
  largest: number;
  /** Whether the value falls, and never rises, however far one goes along d: proof that there is no minimum. */
  forever: boolean;
}

export interface Minimum {
  x: Float64Array;
  /** `unbounded`: the value keeps falling as x runs off to infinity; x is as far as the search had come. */
  status: 'converged' | 'unbounded' | 'not-converged';
  /** The Hessian where the last step began. */
  hessian: Float64Array;
}

export interface SearchOptions {
  /** The least value of each variable, -Infinity for none; by default none has one. */
  lower?: readonly number[];
  /** The variables that are searched over, by default all; the others stay where they are. */
  among?: readonly number[];
  /** What the Hessian at the start is about: the first step is taken by it, to save the making. */
  hessian?: Float64Array;
  /** The most Newton steps, by default 100. */
  maxIterations?: number;
}

/** A step that changes nothing by more than this is the last: what is left is of the order of its square. */
const SMALL_CHANGE = 1e-7;
/** While a step is to lower the value by more than this, it is not the last: what it changes is not looked at. */
const FAR = 1e-3;
const SHORTEST_STEP = 2 ** -100;
/** From here on convergence is quadratic, if it is at all. */
const NEAR = 1e-3;
/** Where the predicted decrease is below this, values differ by rounding alone: steps are taken whole. */
const SMALL_DECREASE = 1e-12;
/** Where it is below this, so do gradients: the search has come as far as it can. */
const NO_DECREASE = 1e-16;
/** Added to the unit diagonal of the scaled Hessian, more where that does not do: a singular one is solved as well. */
const RIDGE = 1e-14;
/** A diagonal entry that counts as 0. */
const FLAT = 1e-200;
/** What is left of a scaled diagonal entry that counts as nothing, in `independent`. */
const RANK_TOLERANCE = 1e-12;
/** A distance to a least value that counts as nothing, as a share of where the step began. */
const ROUNDING = 1e-14;

/** 1 / sqrt of the diagonal; 1 where that is next to 0, so that the step of such a variable is its gradient. */
function diagonalScale(hessian: Float64Array, size: number): Float64Array {
  return Float64Array.from({ length: size }, (_, a) => {
    const entry = hessian[a * size + a]!;
    return entry > FLAT ? 1 / Math.sqrt(entry) : 1;
  });
}

/** The Cholesky factor of the free part of the scaled Hessian plus a ridge; null where a pivot is not positive. */
function factor(hessian: Float64Array, size: number, scale: Float64Array, free: readonly number[], ridge: number) {
  const m = free.length;
  const lower = new Float64Array(m * m);
  for (let i = 0; i < m; i++) {
    for (let j = 0; j <= i; j++) {
      const [a, b] = [free[i]!, free[j]!];
      let sum = i === j && hessian[a * size + a]! <= FLAT ? 1 : hessian[a * size + b]! * scale[a]! * scale[b]!;
      if (i === j) sum += ridge;
      for (let k = 0; k < j; k++) sum -= lower[i * m + k]! * lower[j * m + k]!;
      if (i !== j) lower[i * m + j] = sum / lower[j * m + j]!;
      else if (sum > 0) lower[i * m + i] = Math.sqrt(sum);
      else return null;
    }
  }
  return lower;
}

/**
 * (H + ridge)^-1 v over the variables of `free`, 0 in the others: on a singular H, next to the shortest solution.
 * @param hessian size x size, of which the lower triangle is read
 */
export function solve(hessian: Float64Array, v: Float64Array, free: readonly number[]): Float64Array {
  const size = v.length;
  const m = free.length;
  const scale = diagonalScale(hessian, size);
  let ridge = RIDGE;
  let lower = factor(hessian, size, scale, free, ridge);
  for (; !lower && ridge < 1e12; lower = factor(hessian, size, scale, free, ridge)) ridge *= 100;
  if (!lower) return new Float64Array(size); // no number in it
  const y = Float64Array.from(free, (a) => v[a]! * scale[a]!);
  for (let i = 0; i < m; i++) {
    for (let k = 0; k < i; k++) y[i]! -= lower[i * m + k]! * y[k]!;
    y[i]! /= lower[i * m + i]!;
  }
  for (let i = m - 1; i >= 0; i--) {
    for (let k = i + 1; k < m; k++) y[i]! -= lower[k * m + i]! * y[k]!;
    y[i]! /= lower[i * m + i]!;
  }
  const solution = new Float64Array(size);
  free.forEach((a, i) => (solution[a] = y[i]! * scale[a]!));
  return solution;
}

/**
 * Variables that are independent, and of which all others are combinations, by a positive semidefinite matrix (its lower
 * triangle): the pivots of its Cholesky factor, ascending. There are as many as its rank.
 */
export function independent(hessian: Float64Array, size: number): number[] {
  const scale = diagonalScale(hessian, size);
  const a = new Float64Array(size * size);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      a[i * size + j] = a[j * size + i] = hessian[i * size + j]! * scale[i]! * scale[j]!;
    }
  }
  const left = new Set(Array.from({ length: size }, (_, i) => i));
  while (left.size > 0) {
    let pivot = -1;
    for (const i of left) if (pivot < 0 || a[i * size + i]! > a[pivot * size + pivot]!) pivot = i;
    const top = a[pivot * size + pivot]!;
    if (!(top > RANK_TOLERANCE)) break;
    left.delete(pivot);
    for (const i of left) {
      const share = a[i * size + pivot]! / top;
      for (const j of left) a[i * size + j]! -= share * a[pivot * size + j]!;
    }
  }
  return Array.from({ length: size }, (_, i) => i).filter((i) => !left.has(i));
}

const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);

/**
 * Newton's method with a backtracking line search. Variables that have come down to their least value and are pressed
 * against it sit out. Quadratic convergence; each step lowers the value.
 * @param start where the value is finite
 */
export function minimise(objective: Objective, start: Float64Array, options: SearchOptions = {}): Minimum {
  const { lower, among = Array.from(start, (_, a) => a), maxIterations = 100 } = options;
  const least = (a: number) => lower?.[a] ?? -Infinity;
  const evaluate = (x: Float64Array, known?: Float64Array) => {
    const gradient = new Float64Array(objective.size);
    const hessian = known ?? new Float64Array(objective.size ** 2);
    const value = objective.at(x, gradient, known ? undefined : hessian);
    return { x, value, gradient, hessian };
  };
  let here = evaluate(Float64Array.from(start), options.hessian);
  let before = NaN;
  for (let iteration = 0; iteration < maxIterations; iteration++) {
    const { x, value, gradient, hessian } = here;
    const atBound = (a: number) => x[a]! <= least(a);
    let free = among.filter((a) => !(atBound(a) && gradient[a]! > 0));
    const downhill = gradient.map((g) => -g);
    let d = solve(hessian, downhill, free);
    // Coupled to others, a variable on its bound may be sent across it: it sits out as well.
    while (free.some((a) => atBound(a) && d[a]! < 0)) {
      free = free.filter((a) => !(atBound(a) && d[a]! < 0));
      d = solve(hessian, downhill, free);
    }
    const decrease = -dot(gradient, d);
    const change = decrease > FAR ? null : objective.change(d, x);
    // The first least value on the way ends a step: the variable then rests on it.
    const room = x.reduce((most, from, a) => (d[a]! < 0 ? Math.min(most, (least(a) - from) / d[a]!) : most), 1);
    const step = (t: number) =>
      Float64Array.from(x, (from, a) => {
        const to = from + t * d[a]!;
        return to - least(a) <= ROUNDING * Math.abs(from) ? least(a) : to;
      });
    if (change) {
      const next = (change.largest / before ** 2) * change.largest ** 2; // by quadratic convergence; NaN at first
      const near = change.largest <= NEAR && next <= SMALL_CHANGE / 10;
      if (near || change.largest <= SMALL_CHANGE) return { x: step(room), status: 'converged', hessian };
      // What comes down to a least value cannot for ever: without that part, does the value still fall?
      const onward = d.map((to, a) => (least(a) === -Infinity ? to : Math.max(0, to)));
      if (change.forever && objective.change(onward, x).forever) return { x, status: 'unbounded', hessian };
      if (decrease <= NO_DECREASE) return { x, status: 'converged', hessian };
    }
    before = change && room === 1 && hessian !== options.hessian ? change.largest : NaN;
    let t = room;
    for (let there = evaluate(step(t)); ; there = evaluate(step(t))) {
      const expected = there.x.reduce((sum, to, a) => sum + gradient[a]! * (to - x[a]!), 0);
      here = there;
      if (decrease <= SMALL_DECREASE || there.value <= value + 1e-4 * Math.min(0, expected)) break; // false of NaN
      before = NaN;
      t /= 2;
      if (t < SHORTEST_STEP) return { x, status: 'not-converged', hessian };
    }
  }
  return { ...here, status: 'not-converged' };
}
