import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc, type PosthocFit } from '../../../src/calibrate/posthoc';
import { repeatProbs } from './cases';

/** Rows of two classes: the second has probability p. */
const pairs = (list: [p: number, label: number][]) => list.flatMap(([p, label]) => repeatProbs([1 - p, p], [label]));
const at = (fit: PosthocFit, p: number) => applyPosthoc(fit, { probs: [1 - p, p] })[1]!;

describe('isotonic regression', () => {
  it('pools what is out of order, and goes straight between levels', () => {
    const fit = fitPosthoc('isotonic', pairs([[0.1, 0], [0.2, 1], [0.3, 0], [0.4, 1]])); // prettier-ignore
    expect(fit.status).toBe('converged');
    expect(fit.maps).toEqual([{ status: 'converged', scores: [0.1, 0.2, 0.3, 0.4], values: [0, 0.5, 0.5, 1] }]);
    expect(at(fit, 0.25)).toBe(0.5);
    expect(at(fit, 0.15)).toBeCloseTo(0.25, 12);
    expect([at(fit, 0.01), at(fit, 0.99)]).toEqual([0, 1]);
  });

  it('pools equal scores first, whatever their order', () => {
    for (const labels of [[0, 1, 1], [1, 1, 0], [1, 0, 1]]) {
      const fit = fitPosthoc('isotonic', pairs([[0.2, 0], ...labels.map((y) => [0.5, y] as [number, number])]));
      expect(fit.maps[0]!.scores).toEqual([0.2, 0.5]);
      expect(fit.maps[0]!.values).toEqual([0, 2 / 3]);
    } // prettier-ignore
  });

  it('takes scores as equal that differ by rounding', () => {
    const p = 1 / (1 + Math.exp(1));
    const fit = fitPosthoc('isotonic', pairs([[p, 0], [p + 2 ** -54, 1], [p - 2 ** -54, 1]])); // prettier-ignore
    expect(fit.status).toBe('constant-scores');
    expect(fit.maps[0]!.values).toEqual([2 / 3]);
  });

  it('is level where the label becomes less probable as p rises', () => {
    const fit = fitPosthoc('isotonic', pairs([[0.1, 1], [0.5, 1], [0.6, 0], [0.9, 0]])); // prettier-ignore
    expect(fit.maps[0]).toEqual({ status: 'converged', scores: [0.1, 0.9], values: [0.5, 0.5] });
  });

  it('gives 0 to a class that is never the label, and says so', () => {
    const fit = fitPosthoc('isotonic', pairs([[0.1, 0], [0.9, 0]])); // prettier-ignore
    expect(fit.status).toBe('class-absent');
    expect(applyPosthoc(fit, { probs: [0.5, 0.5] })).toEqual([1, 0]);
  });

  it('is uniform where every class gets 0', () => {
    const rows = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]].flatMap((probs, label) => repeatProbs(probs, [label])); // prettier-ignore
    const fit = fitPosthoc('isotonic', rows);
    expect(applyPosthoc(fit, { probs: [0.8, 0.1, 0.1] })).toEqual([1, 0, 0]);
    const low = { ...fit, maps: fit.maps.map((map) => ({ ...map, values: map.values.map(() => 0) })) };
    expect(applyPosthoc(low, { probs: [0.2, 0.3, 0.5] })).toEqual([1 / 3, 1 / 3, 1 / 3]);
  });

  it('rises, stays in [0, 1], and has no larger squared error or NLL than before', () => {
    const pair = fc.tuple(
      fc.integer({ min: 0, max: 32 }).map((k) => k / 32),
      fc.nat(1),
    );
    fc.assert(
      fc.property(fc.array(pair, { minLength: 1, maxLength: 40 }), (list) => {
        const fit = fitPosthoc('isotonic', pairs(list));
        const values = Array.from({ length: 101 }, (_, k) => at(fit, k / 100));
        values.forEach((value, k) => {
          expect(value).toBeGreaterThanOrEqual(k > 0 ? values[k - 1]! : 0);
          expect(value).toBeLessThanOrEqual(1);
        });
        const error = (q: (p: number) => number) => list.reduce((sum, [p, y]) => sum + (q(p) - y) ** 2, 0);
        expect(error((p) => at(fit, p))).toBeLessThanOrEqual(error((p) => p) + 1e-9);
        expect(fit.nll_after).toBeLessThanOrEqual(fit.nll_before + 1e-9);
      }),
    );
  });
});
