import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { toJson } from '../base/files';
import type { Random } from '../engine/random';
import {
  type CalibrationMetrics,
  checkPredictions,
  type Prediction,
  type Predictions,
  softmax,
  summarise,
} from '../metrics';

/**
 * Where the minimum of NLL(T) over 0 < T < Infinity lies. NLL is convex in 1/T, so this is decided before any search:
 * - `at-infinity`: the labels' logits are on average no higher than their rows' mean; the best T is Infinity (uniform).
 * - `at-zero`: every label is among its row's largest logits; NLL falls all the way to T = 0.
 * - `no-support`: in every row the (finite) logits are all equal; every T gives the same NLL, and none is found.
 * - `not-converged`: there is a finite minimum but the search was cut short; no temperature is given.
 */
export type TemperatureStatus = 'finite' | 'at-zero' | 'at-infinity' | 'not-converged' | 'no-support';

/** A fitted temperature. NLLs are means over the n rows, in nats. */
export interface TemperatureFit {
  version: 1;
  method: 'temperature';
  status: TemperatureStatus;
  /** The unbounded optimum, possibly 0 or Infinity; null when there is none or it was not reached. */
  temperature: number | null;
  /** The minimum within `bounds`, as the paper searches it; null as `temperature` is. */
  bounded_temperature: number | null;
  /** What "after" means: the bounded temperature, as in the paper, or 1 where there is none. */
  applied_temperature: number;
  bounds: [number, number];
  n: number;
  nll_before: number;
  nll_after: number;
}

export interface TemperatureOptions {
  /** The interval of the bounded temperature; by default [0.1, 10] (CALM paper, C.2). */
  bounds?: [number, number];
  /** The most evaluations the search may use, by default 100. */
  maxEvaluations?: number;
  kind?: 'probs' | 'logits';
  where?: (row: number) => string;
}

/** Absolute tolerance of log T. */
const LOG_TOLERANCE = 1e-10;
/** The largest |log T| that is tried: exp of it and its inverse are doubles. */
const LARGEST_LOG = 700;
/** Below this share of what it was made from, the sum that decides `at-infinity` is rounding. */
const SUM_ROUNDING = 1e-12;

/**
 * Rows laid end to end: row i is gaps[starts[i] .. starts[i + 1]), logits minus the row's largest (all <= 0). One
 * largest logit of each row is left out: its gap is 0, and the 1 it adds to a sum of exp is kept for log1p.
 */
interface Rows {
  gaps: Float64Array;
  starts: Int32Array;
  /** The label's gap in each row. */
  labels: Float64Array;
}

function layOut({ logits, probs, labels }: Predictions, where = (row: number) => `row ${row + 1}`): Rows {
  const given = logits ?? probs;
  const rows: Rows = {
    gaps: new Float64Array(given.reduce((sum, row) => sum + row.length, 0)),
    starts: new Int32Array(given.length + 1),
    labels: new Float64Array(given.length),
  };
  let end = 0;
  given.forEach((row, i) => {
    const values = logits ? row : row.map((p) => Math.log(p));
    const max = values.reduce((a, b) => Math.max(a, b));
    const gap = values[labels[i]!]! - max;
    if (gap === -Infinity) {
      throw new CalmError(`${where(i)}: the label has probability 0, which no temperature changes`, {
        remedy: 'give logits as "logits"',
      });
    }
    rows.labels[i] = gap;
    const top = values.indexOf(max);
    values.forEach((value, k) => {
      if (k !== top && value - max !== -Infinity) rows.gaps[end++] = value - max;
    });
    rows.starts[i + 1] = end;
  });
  return { ...rows, gaps: rows.gaps.subarray(0, end) };
}

/** Mean NLL at inverse temperature beta. */
function nllAt({ gaps, starts, labels }: Rows, beta: number): number {
  let total = 0;
  for (let i = 0; i < labels.length; i++) {
    let sum = 0;
    for (let k = starts[i]!; k < starts[i + 1]!; k++) sum += Math.exp(beta * gaps[k]!);
    total += Math.log1p(sum) - beta * labels[i]!;
  }
  return total / labels.length;
}

/** First and second derivative of the mean NLL by beta: mean of E[z] - z_label, and of Var[z], under softmax(beta z). */
function derivatives({ gaps, starts, labels }: Rows, beta: number): { slope: number; curvature: number } {
  let slope = 0;
  let curvature = 0;
  for (let i = 0; i < labels.length; i++) {
    let sum = 1;
    let first = 0;
    let second = 0;
    for (let k = starts[i]!; k < starts[i + 1]!; k++) {
      const gap = gaps[k]!;
      const weight = Math.exp(beta * gap);
      sum += weight;
      first += weight * gap;
      second += weight * gap * gap;
    }
    const expected = first / sum;
    slope += expected - labels[i]!;
    curvature += second / sum - expected * expected;
  }
  return { slope: slope / labels.length, curvature: curvature / labels.length };
}

/** The status that the logits alone decide: `finite` means that 0 < T < Infinity minimises NLL. */
function locate({ gaps, starts, labels }: Rows): Exclude<TemperatureStatus, 'not-converged'> {
  if (gaps.every((gap) => gap === 0)) return 'no-support';
  if (labels.every((gap) => gap === 0)) return 'at-zero';
  const n = labels.length;
  let sum = 0;
  let size = 0;
  for (let i = 0; i < n; i++) {
    const options = starts[i + 1]! - starts[i]! + 1;
    let mean = 0;
    for (let k = starts[i]!; k < starts[i + 1]!; k++) mean += gaps[k]! / options; // a mask may be near -1.8e308
    sum += (labels[i]! - mean) / n;
    size += (Math.abs(labels[i]!) + Math.abs(mean)) / n;
  }
  return sum <= SUM_ROUNDING * size ? 'at-infinity' : 'finite'; // sum > 0 is NLL falling as 1/T leaves 0
}

/** The root of NLL' in x = log(1/T): a bracket by doubling steps, then Newton kept inside it by bisection. */
function search(rows: Rows, maxEvaluations: number): number | null {
  let [low, high] = [-Infinity, Infinity];
  let x = 0;
  let change = 0.5;
  for (let evaluations = 1; evaluations <= maxEvaluations && Math.abs(x) < LARGEST_LOG; evaluations++) {
    const beta = Math.exp(x);
    const { slope, curvature } = derivatives(rows, beta);
    if (slope === 0) return 1 / beta;
    if (slope > 0) high = x;
    else low = x;
    const newton = x - slope / (beta * curvature);
    let next = (low + high) / 2;
    if (!Number.isFinite(next)) next = slope > 0 ? x - 2 * change : x + 2 * change;
    else if (newton > low && newton < high && Math.abs(newton - x) <= change / 2) next = newton;
    change = Math.abs(next - x);
    x = next;
    if (change <= LOG_TOLERANCE) return Math.exp(-x);
  }
  return null;
}

/** `fitTemperature` of rows that were checked before. */
export function fitChecked(predictions: Predictions, options: TemperatureOptions): TemperatureFit {
  const { bounds = [0.1, 10], maxEvaluations = 100 } = options;
  if (!(bounds[0] > 0 && bounds[0] < bounds[1] && bounds[1] < Infinity)) {
    throw new UsageError(`the bounds of the temperature are ${bounds.join(' and ')}`, { remedy: 'try 0.1 and 10' });
  }
  const rows = layOut(predictions, options.where);
  const where = locate(rows);
  const limits = { 'at-zero': 0, 'at-infinity': Infinity, 'no-support': null };
  const temperature = where === 'finite' ? search(rows, maxEvaluations) : limits[where];
  const bounded = temperature === null ? null : Math.min(bounds[1], Math.max(bounds[0], temperature));
  const applied = bounded ?? 1;
  return {
    version: 1,
    method: 'temperature',
    status: where === 'finite' && temperature === null ? 'not-converged' : where,
    temperature,
    bounded_temperature: bounded,
    applied_temperature: applied,
    bounds,
    n: rows.labels.length,
    nll_before: nllAt(rows, 1),
    nll_after: nllAt(rows, 1 / applied),
  };
}

/**
 * Temperature scaling (Guo et al. 2017; CALM paper, Eq. 1 and C.2): the T that minimises the mean NLL of softmax(z/T)
 * on the rows, which may differ in their number of options. `temperature` is the unbounded optimum with its status,
 * by Newton's method from no chosen start. NLL has one valley in T, so its minimum within the bounds is that optimum
 * or the bound nearest to it: what `minimize_scalar(method="bounded")` of the paper approaches to within 1e-4.
 * Rows of probabilities are fitted as logits log p: an option of probability 0 stays at 0 at every T, and a label of
 * probability 0 is refused.
 * @throws CalmError that names the row at fault (see `checkPredictions`); UsageError on bounds that are none
 */
export function fitTemperature(
  rows: readonly Prediction[] | readonly unknown[],
  options: TemperatureOptions = {},
): TemperatureFit {
  return fitChecked(checkPredictions(rows, options), options);
}

/**
 * The JSON of `calm fit temperature`: the fit, and every metric of the same rows before and at `applied_temperature`.
 * They are in-sample figures; report those of other rows.
 * @throws CalmError, UsageError as `fitTemperature`, and on a number of bins below 1
 */
export function temperatureReport(
  rows: readonly Prediction[] | readonly unknown[],
  options: TemperatureOptions & { bins?: number } = {},
): TemperatureFit & { metrics_before: CalibrationMetrics; metrics_after: CalibrationMetrics } {
  const predictions = checkPredictions(rows, options);
  const fitted = fitChecked(predictions, options);
  const t = fitted.applied_temperature;
  const given = predictions.logits ?? predictions.probs.map((row) => row.map((p) => Math.log(p)));
  const after: Predictions = { labels: predictions.labels, probs: given.map((row) => applyTemperature(row, t)) };
  if (predictions.logits) after.logits = given.map((row) => row.map((value) => value / t));
  return { ...fitted, metrics_before: summarise(predictions, options), metrics_after: summarise(after, options) };
}

/** softmax(z / T) of one row: the order of the options is unchanged. T may be 0 or Infinity, taken as the limits. */
export function applyTemperature(logits: ArrayLike<number>, temperature: number): number[] {
  if (!(temperature >= 0)) throw new UsageError(`${temperature} is not a temperature`, { remedy: 'it is at least 0' });
  return softmax(logits, temperature);
}

/** Mean NLL of rows at T > 0 (Infinity: uniform), in nats, for the half that was not fitted on. @throws as `fitTemperature` */
export function temperatureNll(rows: readonly Prediction[] | readonly unknown[], temperature: number): number {
  if (!(temperature > 0)) throw new UsageError(`${temperature} is not a temperature above 0`);
  return nllAt(layOut(checkPredictions(rows)), 1 / temperature);
}

/**
 * The paper's split of calibration data: a random half to fit on (the larger, of an odd number), the rest to check.
 * @throws CalmError with fewer than two items
 */
export function splitCalibration<T>(items: readonly T[], random: Random): { fit: T[]; check: T[] } {
  if (items.length < 2) throw new CalmError(`cannot split ${items.length} item(s) into halves`);
  const shuffled = random.shuffle(items);
  const half = Math.ceil(items.length / 2);
  return { fit: shuffled.slice(0, half), check: shuffled.slice(half) };
}

/**
 * Refuses to test a calibrator on what it was fitted on.
 * @throws UsageError that names the ids both sets have
 */
export function assertDisjoint(fitIds: Iterable<string | number>, testIds: Iterable<string | number>): void {
  const fitted = new Set(fitIds);
  const shared = [...new Set(testIds)].filter((id) => fitted.has(id));
  if (shared.length === 0) return;
  const some = shared.slice(0, 3).join(', ') + (shared.length > 3 ? ', …' : '');
  throw new UsageError(`${shared.length} item(s) are in both the fitting and the test data: ${some}`, {
    remedy: 'fit on other items than those you test on',
  });
}

const infinite = z.literal('Infinity').transform(() => Infinity);
const temperature = z.union([z.number().nonnegative(), infinite]);
const schema = z.object({
  version: z.literal(1),
  method: z.literal('temperature'),
  status: z.enum(['finite', 'at-zero', 'at-infinity', 'not-converged', 'no-support']),
  temperature: temperature.nullable(),
  bounded_temperature: z.number().positive().nullable(),
  applied_temperature: z.number().positive(),
  bounds: z.tuple([z.number().positive(), z.number().positive()]),
  n: z.int().positive(),
  nll_before: z.number(),
  nll_after: z.number(),
}) satisfies z.ZodType<TemperatureFit>;

/** The text of a calibration file. */
export function calibrationToJson(calibration: TemperatureFit): string {
  return `${toJson(calibration, 2)}\n`;
}

/**
 * A calibration from parsed JSON, such as `readJson` gives; keys beyond those of a fit are dropped.
 * @throws CalmError that says what is wrong with it
 */
export function calibrationFromJson(value: unknown): TemperatureFit {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new CalmError(`not a temperature calibration: ${issue.path.join('.') || 'it'}: ${issue.message}`, {
    remedy: 'make one with calm fit temperature',
    cause: parsed.error,
  });
}
