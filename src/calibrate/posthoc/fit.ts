import { UsageError } from '../../base/errors';
import { pick, unknownName } from '../../base/pick';
import {
  type CalibrationMetrics,
  checkPredictions,
  nll,
  type Prediction,
  type Predictions,
  summarise,
} from '../../metrics';
import { beta } from './beta';
import { ets } from './ets';
import { histogram } from './histogram';
import { isotonic } from './isotonic';
import { matrix } from './matrix';
import type { Data, PosthocMethod, PosthocStatus, Uncalibrated } from './method';
import { platt } from './platt';
import { rowAt } from './rows';
import { vector } from './vector';

/** The relatives of temperature scaling, by name. */
export const POSTHOC = { vector, matrix, platt, isotonic, histogram, beta, ets } as const;

export type PosthocName = keyof typeof POSTHOC;

type ParametersOf<M extends PosthocName> = (typeof POSTHOC)[M] extends PosthocMethod<infer _O, infer P> ? P : never;

/** What a fit says beside its parameters. NLLs are means over the n rows, in nats, and may be Infinity. */
export interface PosthocHeader<M extends string> {
  version: 1;
  method: M;
  n: number;
  nll_before: number;
  nll_after: number;
}

/** A fitted calibrator: plain JSON. */
export type PosthocFit<M extends PosthocName = PosthocName> = M extends PosthocName
  ? PosthocHeader<M> & ParametersOf<M>
  : never;

/** The options of a method, and what an error calls row i. */
export type PosthocOptions<M extends PosthocName> = Partial<
  (typeof POSTHOC)[M] extends PosthocMethod<infer O, infer _P> ? O : never
> & { kind?: 'probs' | 'logits'; where?: (row: number) => string };

/** A method of which only that it is one is known. */
export type AnyMethod = PosthocMethod<object, { status: PosthocStatus }>;

function parse(name: string, method: AnyMethod, options: object): object {
  const parsed = method.options.safeParse(options);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  if (issue.code === 'unrecognized_keys') {
    throw unknownName(`option of ${name}`, issue.keys[0]!, Object.keys(method.options.shape));
  }
  throw new UsageError(`option ${issue.path.join('.')}: ${issue.message}`);
}

function calibrated(method: AnyMethod, parameters: { status: PosthocStatus }, data: Data): Predictions {
  const { labels } = data.predictions;
  const rows = labels.map((_, i) => method.apply(parameters, rowAt(data, i)));
  const after: Predictions = { labels, probs: rows.map(({ probs }) => probs) };
  if (rows[0]!.logits) after.logits = rows.map(({ logits }) => logits!);
  return after;
}

function fit<M extends PosthocName>(name: M, rows: readonly unknown[] | Predictions, options: PosthocOptions<M>) {
  const { kind, where = (row: number) => `row ${row + 1}`, ...own } = options;
  const method: AnyMethod = pick('method', name, POSTHOC);
  const chosen = parse(name, method, own);
  const predictions = 'labels' in rows ? rows : checkPredictions(rows, { kind, where });
  const data = { predictions, where };
  const { status, ...parameters } = method.fit(data, chosen);
  const after = calibrated(method, { status, ...parameters }, data);
  const fitted = {
    version: 1,
    method: name,
    status,
    ...parameters,
    n: predictions.labels.length,
    nll_before: nll(predictions),
    nll_after: nll(after),
  } as unknown as PosthocFit<M>;
  return { fitted, before: predictions, after };
}

/**
 * A post-hoc calibrator fitted to rows, which `applyPosthoc` applies to others: see `vector`, `matrix`, `platt`,
 * `isotonic`, `histogram`, `beta` and `ets` for what each is, and `PosthocStatus` for how a fit ends. All but `ets`, and
 * `construction: 'top-label'`, want rows of one length. Computed in float64.
 * @param rows rows `{logits, label}` or `{probs, label}`, or such checked by `checkPredictions`
 * @throws CalmError that names the row at fault (see `checkPredictions`); UsageError on a method or an option that is none
 */
export function fitPosthoc<M extends PosthocName>(
  method: M,
  rows: readonly Prediction[] | readonly unknown[] | Predictions,
  options: PosthocOptions<M> = {},
): PosthocFit<M> {
  return fit(method, rows, options).fitted;
}

/**
 * The fit, and every metric of the same rows before and after: the JSON of `calm fit`. They are in-sample figures; report
 * those of other rows.
 * @param bins of the metrics; those of the calibrator are an option of `histogram`
 * @throws as `fitPosthoc`, and on a number of bins below 1
 */
export function posthocReport<M extends PosthocName>(
  method: M,
  rows: readonly Prediction[] | readonly unknown[] | Predictions,
  options: PosthocOptions<M> = {},
  bins = 10,
): PosthocFit<M> & { metrics_before: CalibrationMetrics; metrics_after: CalibrationMetrics } {
  const { fitted, before, after } = fit(method, rows, options);
  return { ...fitted, metrics_before: summarise(before, { bins }), metrics_after: summarise(after, { bins }) };
}

/**
 * One row's calibrated probabilities, K numbers that sum to 1.
 * @throws CalmError on numbers that are none, and on another number of options than the calibrator is for
 */
export function applyPosthoc(fitted: PosthocFit, row: Uncalibrated): number[] {
  const method: AnyMethod = pick('method', fitted.method, POSTHOC);
  const predictions = checkPredictions([{ ...row, label: 0 }], { where: () => 'the row' });
  return method.apply(fitted, rowAt({ predictions, where: String }, 0)).probs;
}
