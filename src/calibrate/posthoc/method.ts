import type { z } from 'zod';
import { CalmError } from '../../base/errors';
import type { Predictions } from '../../metrics';

/**
 * How a fit ended, the gravest last. Parameters are finite in every case.
 * - `converged`: the parameters minimise the loss. Isotonic regression and histogram binning always get there.
 * - `under-determined`: they do, and others do as well; these are the nearest to changing nothing (of `ets`, any).
 * - `constant-scores`: every row has the same scores; only the level was fitted.
 * - `separable`: the NLL falls for ever as parameters grow, so that there is no minimum. The parameters are those that
 *   fit Platt's smoothed targets (see `regression.ts`) instead.
 * - `class-absent`: a class is never the label (by top label: the top option is always right, or never). Where that
 *   leaves no minimum, smoothed targets again.
 * - `not-converged`: the search was cut short; the parameters are the best it found, no worse than changing nothing.
 */
export const STATUSES = [
  'converged',
  'under-determined',
  'constant-scores',
  'separable',
  'class-absent',
  'not-converged',
] as const;

export type PosthocStatus = (typeof STATUSES)[number];

/** The gravest of some statuses. */
export function gravest(statuses: readonly PosthocStatus[]): PosthocStatus {
  return STATUSES[Math.max(...statuses.map((status) => STATUSES.indexOf(status)))]!;
}

/** One item's options, as logits or as probabilities: the key says which. */
export type Uncalibrated = { logits: readonly number[] } | { probs: readonly number[] };

/** A row after calibration: a probability vector, and its logits where the method has them. */
export interface Calibrated {
  probs: number[];
  logits?: number[];
}

/** Checked rows to fit on, and what an error calls row i. */
export interface Data {
  predictions: Predictions;
  where: (row: number) => string;
}

/** A family of calibration maps. `Parameters` is what is saved; all of it is plain JSON. */
export interface PosthocMethod<Options, Parameters extends { status: PosthocStatus }> {
  /** The source, for help. */
  about: string;
  options: z.ZodObject & z.ZodType<Options>;
  parameters: z.ZodType<Parameters>;
  /** @throws CalmError on rows that the method cannot take */
  fit(data: Data, options: Options): Parameters;
  /** @throws CalmError on a row of another number of options */
  apply(parameters: Parameters, row: Uncalibrated): Calibrated;
}

/** The number of options that all rows have. @throws CalmError that names the first row with another number */
export function classesOf({ predictions, where }: Data): number {
  const { probs } = predictions;
  const classes = probs[0]!.length;
  const other = probs.findIndex((row) => row.length !== classes);
  if (other < 0) return classes;
  throw new CalmError(`${where(other)}: ${probs[other]!.length} options, where the first row has ${classes}`, {
    remedy: 'temperature, ets, and the others by construction=top-label take rows that differ',
  });
}

/** @throws CalmError unless a row has as many options as the parameters are for */
export function checkClasses(row: readonly number[], classes: number): void {
  if (row.length === classes) return;
  throw new CalmError(`${row.length} options, but the calibrator was fitted to ${classes}`);
}
