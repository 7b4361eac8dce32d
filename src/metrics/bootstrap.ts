import { UsageError } from '../base/errors';
import { Random } from '../engine/random';
import { mean } from './scores';

export interface BootstrapInterval {
  low: number;
  high: number;
  /** Standard deviation of the resampled statistic; null when one of them is infinite. */
  standard_error: number | null;
  level: number;
  resamples: number;
  /** Resamples on which the statistic was undefined (null); they are left out. */
  undefined_resamples: number;
}

/** The q-quantile of sorted values, interpolated linearly (numpy's default). */
function quantile(sorted: readonly number[], q: number): number {
  const position = q * (sorted.length - 1);
  const [a, b] = [sorted[Math.floor(position)]!, sorted[Math.ceil(position)]!];
  return a === b ? a : a + (position - Math.floor(position)) * (b - a);
}

/**
 * The percentile bootstrap interval of a statistic of items (Efron 1979), resampled whole with replacement. The
 * statistic may return null where it is undefined. Null when there is one item or none, or nothing was defined.
 * @throws UsageError when the level is not inside (0, 1) or there is not a resample
 */
export function bootstrapInterval<T>(
  items: readonly T[],
  statistic: (sample: readonly T[]) => number | null,
  options: { random?: Random; resamples?: number; level?: number } = {},
): BootstrapInterval | null {
  const { random = Random.seed(0).stream('bootstrap'), resamples = 1000, level = 0.95 } = options;
  if (!(level > 0 && level < 1)) throw new UsageError(`the level of an interval is between 0 and 1, not ${level}`);
  if (!Number.isSafeInteger(resamples) || resamples < 1) {
    throw new UsageError(`the number of resamples is a positive integer, not ${resamples}`);
  }
  if (items.length < 2) return null;
  const values: number[] = [];
  for (let r = 0; r < resamples; r++) {
    const value = statistic(items.map(() => items[random.integer(items.length)]!));
    if (value !== null && !Number.isNaN(value)) values.push(value);
  }
  if (values.length === 0) return null;
  values.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const centre = mean(values);
  const deviation = Math.sqrt(mean(values.map((value) => (value - centre) ** 2)));
  return {
    low: quantile(values, (1 - level) / 2),
    high: quantile(values, (1 + level) / 2),
    standard_error: Number.isFinite(deviation) ? deviation : null,
    level,
    resamples,
    undefined_resamples: resamples - values.length,
  };
}
