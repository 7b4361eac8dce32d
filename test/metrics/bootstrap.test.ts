import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors';
import { Random } from '../../src/engine/random';
import { auroc, bootstrapInterval } from '../../src/metrics';

const mean = (xs: readonly number[]) => xs.reduce((a, b) => a + b, 0) / xs.length;
const draws = (seed: number) => ({ random: Random.seed(seed).stream('bootstrap') });

describe('bootstrapInterval', () => {
  const coins = Array.from({ length: 400 }, (_, i) => (i % 4 === 0 ? 1 : 0));

  it('comes close to the normal interval of a mean', () => {
    const { low, high, standard_error } = bootstrapInterval(coins, mean, draws(3))!;
    const se = Math.sqrt((0.25 * 0.75) / 400);
    expect(Math.abs(standard_error! - se)).toBeLessThan(0.1 * se);
    expect(Math.abs(low - (0.25 - 1.96 * se))).toBeLessThan(0.3 * se);
    expect(Math.abs(high - (0.25 + 1.96 * se))).toBeLessThan(0.3 * se);
  });

  it('repeats from the same seed and differs with another', () => {
    expect(bootstrapInterval(coins, mean, draws(1))).toEqual(bootstrapInterval(coins, mean, draws(1)));
    expect(bootstrapInterval(coins, mean)).toEqual(bootstrapInterval(coins, mean));
    expect(bootstrapInterval(coins, mean, draws(1))).not.toEqual(bootstrapInterval(coins, mean, draws(2)));
  });

  it('narrows with a lower level and says what it did', () => {
    const wide = bootstrapInterval(coins, mean, { ...draws(1), level: 0.99 })!;
    const narrow = bootstrapInterval(coins, mean, { ...draws(1), level: 0.5 })!;
    expect(narrow.low).toBeGreaterThan(wide.low);
    expect(narrow.high).toBeLessThan(wide.high);
    expect([wide.level, wide.resamples, wide.undefined_resamples]).toEqual([0.99, 1000, 0]);
  });

  it('is a point for items that are all the same', () => {
    const point = bootstrapInterval([2, 2, 2], mean)!;
    expect([point.low, point.high, point.standard_error]).toEqual([2, 2, 0]);
  });

  it('is null for one item or none, and where nothing is defined', () => {
    expect(bootstrapInterval([1], mean)).toBeNull();
    expect(bootstrapInterval([], mean)).toBeNull();
    expect(bootstrapInterval([1, 2], () => null, { resamples: 5 })).toBeNull();
  });

  it('leaves out resamples on which the statistic is undefined', () => {
    const rows = [
      { confidence: 0.9, correct: 1 },
      { confidence: 0.4, correct: 0 },
    ];
    const interval = bootstrapInterval(rows, (sample) =>
      auroc(
        sample.map((row) => row.confidence),
        sample.map((row) => row.correct),
      ),
    )!;
    expect(interval.undefined_resamples).toBeGreaterThan(400); // about half draw the same row twice
    expect(interval.undefined_resamples).toBeLessThan(600);
    expect([interval.low, interval.high]).toEqual([1, 1]);
  });

  it('carries infinite statistics without NaN', () => {
    const interval = bootstrapInterval([1, Infinity], mean, { resamples: 200 })!;
    expect([interval.low, interval.high, interval.standard_error]).toEqual([1, Infinity, null]);
  });

  it('refuses a level or a number of resamples that is none', () => {
    expect(() => bootstrapInterval(coins, mean, { level: 95 })).toThrow(UsageError);
    expect(() => bootstrapInterval(coins, mean, { resamples: 0 })).toThrow('positive integer');
  });
});
