import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import {
  adaptiveEce,
  averageCalibrationError,
  binaryEce,
  binTable,
  confEce,
  expectedGap,
  maximumGap,
  mce,
  rmsEce,
} from '../../src/metrics';
import { casesOf, references, tolerance } from './reference';

describe('errors of confidences', () => {
  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agree with the reference: ${name}`, () => {
      for (const c of casesOf(read(), 'conf_correct')) {
        for (const bins of [10, 15] as const) {
          const right = c.bins[`${bins}`];
          const close = (a: number, b: number) =>
            expect(Math.abs(a - b), c.id).toBeLessThanOrEqual(tolerance(c.conf.length));
          close(confEce(c.conf, c.correct, bins), right.ge_lt.ece);
          close(mce(c.conf, c.correct, bins), right.ge_lt.mce);
          close(adaptiveEce(c.conf, c.correct, bins), right.adaptive.chunk_array_split);
        }
      }
    });
  }

  it('M-1: confidence 1 is in the last bin', () => {
    expect(confEce([0.95, 1], [1, 0], 10)).toBeCloseTo(0.475, 12);
  });

  it('M-2: confidence 0 is in the first bin', () => {
    expect(confEce([1, 1, 1, 1, 0], [0, 0, 1, 1, 1], 2)).toBeCloseTo(0.6, 12);
    expect(mce([1, 1, 1, 1, 0], [0, 0, 1, 1, 1], 2)).toBe(1);
  });

  it('M-3: confidence 0 counts', () => {
    expect(confEce([0], [1])).toBe(1);
    expect(expectedGap(binTable([0], [1]))).toBe(1);
  });

  it('M-5: the two variants of a binary ECE have names', () => {
    expect(binaryEce([0.3, 0.7], [1, 1], 'positive-class', 10)).toBeCloseTo(0.5, 12);
    expect(binaryEce([0.3, 0.7], [1, 1], 'top-label', 10)).toBeCloseTo(0.2, 12);
    expect(binaryEce([0.5], [0], 'top-label')).toBe(0.5); // a tie goes to class 0
    expect(binaryEce([0.5, 0.5], [0, 0], 'top-label')).toBe(0.5);
    expect(binaryEce([0.5], [1], 'top-label')).toBe(0.5);
    expect(() => binaryEce([0.5], [1], 'other' as 'top-label')).toThrow(UsageError);
    expect(() => binaryEce([0.5], [1, 0], 'top-label')).toThrow(CalmError);
  });

  it('M-6: the number of bins is not the number of distinct values', () => {
    const p = [0.25, 0.25, 0.55, 0.75, 0.75];
    const y = [0, 0, 1, 1, 1];
    expect(binaryEce(p, y, 'positive-class', 2)).toBeCloseTo(0.29, 12);
    expect(binTable(p, y, 2).map(({ count }) => count)).toEqual([2, 3]);
  });

  it('M-10: perfect certain predictions have error exactly 0', () => {
    expect(confEce([1, 1, 1], [1, 1, 1])).toBe(0);
    expect(mce([1, 1, 1], [1, 1, 1])).toBe(0);
    expect(adaptiveEce([1, 1, 1], [1, 1, 1])).toBe(0);
    expect(rmsEce([1, 1, 1], [1, 1, 1])).toBe(0);
  });

  it('M-17: average and adaptive errors are two numbers with two names', () => {
    const confidence = [...Array<number>(9).fill(0.95), 0.15];
    const correct = [...Array<number>(9).fill(1), 1];
    expect(averageCalibrationError(confidence, correct)).toBeCloseTo((0.05 + 0.85) / 2, 12);
    expect(adaptiveEce(confidence, correct)).toBeCloseTo(0.9 * 0.05 + 0.1 * 0.85, 12);
  });

  it('rms is the L2 norm', () => {
    expect(rmsEce([0.95, 0.25, 0.25, 0.25], [1, 0, 1, 1], 10)).toBeCloseTo(
      Math.sqrt(0.25 * 0.05 ** 2 + 0.75 * (2 / 3 - 0.25) ** 2),
      12,
    );
  });

  it('refuses to average nothing', () => {
    for (const metric of [confEce, mce, rmsEce, adaptiveEce, averageCalibrationError]) {
      expect(() => metric([], [])).toThrow('there are no predictions');
    }
    expect(() => maximumGap(binTable([], []))).toThrow(CalmError);
  });

  it('are in [0, 1], in order, and blind to the order of rows', () => {
    const list = fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 1)), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(list, fc.integer({ min: 1, max: 20 }), (pairs, bins) => {
        const [confidence, correct] = [pairs.map(([c]) => c), pairs.map(([, y]) => y)];
        const ece = confEce(confidence, correct, bins);
        const rms = rmsEce(confidence, correct, bins);
        const max = mce(confidence, correct, bins);
        expect(ece).toBeGreaterThanOrEqual(0);
        expect(ece).toBeLessThanOrEqual(rms + 1e-12);
        expect(rms).toBeLessThanOrEqual(max + 1e-12);
        expect(max).toBeLessThanOrEqual(1);
        const reversed = confEce(confidence.toReversed(), correct.toReversed(), bins);
        expect(reversed).toBeCloseTo(ece, 12);
      }),
    );
  });

  it('are 0 when each bin is right as often as it says', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 8 }), (levels) => {
        const confidence = levels.flatMap((k) => Array<number>(20).fill(k / 20));
        const correct = levels.flatMap((k) => Array.from({ length: 20 }, (_, i) => (i < k ? 1 : 0)));
        expect(confEce(confidence, correct, 20)).toBeLessThan(1e-12);
        expect(mce(confidence, correct, 20)).toBeLessThan(1e-12);
      }),
    );
  });
});
