import { toJson } from '../base/files';
import type { PointRow } from './types';

/** Mean and standard deviation (n - 1) of a metric over seeds, and the value of each. */
export interface Aggregate {
  mean: number | null;
  /** null for a single seed. */
  sd: number | null;
  values: { seed: number; value: number | null }[];
}

/** The runs of one combination of options, over its seeds. */
export interface Configuration {
  model: string;
  setting: string;
  label: string;
  method: string;
  options: Record<string, unknown>;
  varied: Record<string, unknown>;
  ids: string[];
  seeds: number[];
  validation: Record<string, Aggregate>;
  test: Record<string, Aggregate>;
}

/**
 * What a selection rests on.
 * - `selected`: the lowest conf-ECE among those accurate enough.
 * - `none-accurate-enough`: no configuration passes the accuracy threshold, so the most accurate is taken.
 * - `no-base`: the base model's accuracy is not known (yet), so nothing is chosen.
 * - `incomplete`: no configuration has all its seeds (yet), so nothing is chosen.
 */
export type SelectionStatus = 'selected' | 'none-accurate-enough' | 'no-base' | 'incomplete';

export interface Selection<T> {
  status: SelectionStatus;
  chosen: T | null;
  /** The accuracy to be exceeded: a share of the base model's. */
  threshold: number | null;
  /** How many were accurate enough, of how many. */
  passed: number;
  considered: number;
}

/** The share of the base model's accuracy that a point must exceed (CALM paper, C.3). */
export const ACCURACY_SHARE = 0.8;

/**
 * The selection rule (CALM paper, C.3): the lowest conf-ECE on validation among candidates whose accuracy there is above
 * 80 % of the base model's; when there is none, the most accurate. Ties are decided by the other of the two, then by
 * order. A candidate without a conf-ECE or accuracy (null or NaN) is never chosen by it.
 * @param of gives a candidate's accuracy (0 to 1) and conf-ECE on validation
 */
export function selectPoint<T>(
  candidates: readonly T[],
  of: (candidate: T) => { accuracy: number | null; confEce: number | null },
  baseAccuracy: number | null,
): Selection<T> {
  const known = candidates.flatMap((candidate) => {
    const { accuracy, confEce } = of(candidate);
    const numbers = Number.isFinite(accuracy) && Number.isFinite(confEce);
    return numbers ? [{ candidate, accuracy: accuracy!, confEce: confEce! }] : [];
  });
  const considered = candidates.length;
  if (baseAccuracy === null || !Number.isFinite(baseAccuracy)) {
    return { status: 'no-base', chosen: null, threshold: null, passed: 0, considered };
  }
  const threshold = ACCURACY_SHARE * baseAccuracy;
  if (known.length === 0) return { status: 'incomplete', chosen: null, threshold, passed: 0, considered };
  // Accuracies are fractions of at most a few million items: nearer than this, one is the threshold, up to rounding.
  const passing = known.filter(({ accuracy }) => accuracy > threshold + 1e-9);
  const [best] =
    passing.length > 0
      ? [...passing].sort((a, b) => a.confEce - b.confEce || b.accuracy - a.accuracy)
      : [...known].sort((a, b) => b.accuracy - a.accuracy || a.confEce - b.confEce);
  return {
    status: passing.length > 0 ? 'selected' : 'none-accurate-enough',
    chosen: best!.candidate,
    threshold,
    passed: passing.length,
    considered,
  };
}

/** Mean and standard deviation (n - 1) over seeds; null where a value is missing. */
export function overSeeds(values: readonly { seed: number; value: number | null }[]): Aggregate {
  const numbers = values.flatMap(({ value }) => (value === null ? [] : [value]));
  const n = numbers.length;
  if (n === 0 || n < values.length) return { mean: null, sd: null, values: [...values] };
  const mean = numbers.reduce((a, b) => a + b, 0) / n;
  const sd = n < 2 ? null : Math.sqrt(numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (n - 1));
  return { mean, sd, values: [...values] };
}

/** What runs of other seeds than one's own share. */
export function configurationKey({
  model,
  setting,
  label,
  options,
}: Pick<PointRow, 'model' | 'setting' | 'label' | 'options'>): string {
  return toJson([model, setting, label, options]);
}

/** One configuration of its rows (at least one), which are of different seeds. */
export function configurationOf(rows: readonly PointRow[]): Configuration {
  const sorted = [...rows].sort((a, b) => a.seed - b.seed);
  const over = (part: 'validation' | 'test') =>
    Object.fromEntries(
      Object.keys(sorted[0]![part].metrics).map((name) => [
        name,
        overSeeds(sorted.map((row) => ({ seed: row.seed, value: row[part].metrics[name]?.value ?? null }))),
      ]),
    );
  const { model, setting, label, method, options, varied } = sorted[0]!;
  return {
    model,
    setting,
    label,
    method,
    options,
    varied,
    ids: sorted.map(({ id }) => id),
    seeds: sorted.map(({ seed }) => seed),
    validation: over('validation'),
    test: over('test'),
  };
}
