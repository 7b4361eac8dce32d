import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { brier, brierDecomposition, softmax, topLabelBrier } from '../../src/metrics';
import { casesOf, references, tolerance } from './reference';

describe('Brier score', () => {
  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agrees with the reference, and its decomposition adds up: ${name}`, () => {
      for (const c of casesOf(read(), 'probs')) {
        const near = (a: number, b: number) =>
          expect(Math.abs(a - b), c.id).toBeLessThanOrEqual(tolerance(c.labels.length));
        near(brier(c), c.brier_sum);
        near(topLabelBrier(c), c.brier_top_label);
        const { reliability, resolution, uncertainty, within_bin } = brierDecomposition(c);
        near(reliability - resolution + uncertainty + within_bin, c.brier_sum);
      }
    });
  }

  it('is the sum form, 0 to 2', () => {
    expect(brier({ probs: [[1, 0]], labels: [1] })).toBe(2);
    expect(brier({ probs: [[1, 0]], labels: [0] })).toBe(0);
  });

  it('decomposes by hand: equal confidences in a bin leave nothing within it', () => {
    // p = 0.8 four times, three right; p = 0.4 twice, none right: base rate of class 0 is 1/2
    const probs = [...Array<number[]>(4).fill([0.8, 0.2]), ...Array<number[]>(2).fill([0.4, 0.6])];
    const { reliability, resolution, uncertainty, within_bin } = brierDecomposition({
      probs,
      labels: [0, 0, 0, 1, 1, 1],
    });
    expect(reliability).toBeCloseTo(2 * ((4 / 6) * 0.05 ** 2 + (2 / 6) * 0.4 ** 2), 12);
    expect(resolution).toBeCloseTo(2 * ((4 / 6) * 0.25 ** 2 + (2 / 6) * 0.5 ** 2), 12);
    expect(uncertainty).toBeCloseTo(2 * 0.25, 12);
    expect(within_bin).toBeCloseTo(0, 12);
  });

  it('adds up for any rows, also of different lengths', () => {
    const row = fc
      .array(fc.double({ min: -6, max: 6, noNaN: true }), { minLength: 2, maxLength: 6 })
      .chain((z) => fc.tuple(fc.constant(softmax(z)), fc.nat(z.length - 1)));
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 30 }), fc.integer({ min: 1, max: 20 }), (rows, bins) => {
        const predictions = { probs: rows.map(([p]) => p), labels: rows.map(([, y]) => y) };
        const t = brierDecomposition(predictions, bins);
        expect(t.reliability - t.resolution + t.uncertainty + t.within_bin).toBeCloseTo(brier(predictions), 10);
        expect(Math.min(t.reliability, t.resolution, t.uncertainty)).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it('refuses no rows', () => {
    expect(() => brier({ probs: [], labels: [] })).toThrow('there are no predictions');
    expect(() => brierDecomposition({ probs: [], labels: [] })).toThrow('there are no predictions');
  });
});
