import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc } from '../../../src/calibrate/posthoc';
import { repeat } from './cases';

describe('vector scaling', () => {
  it('has two levels of one logit give the rates at them', () => {
    // Three of four right at z_0 = 1, one of four at -1: w_0 = ln 3. Nothing depends on w_1, as z_1 is always 0.
    const rows = [...repeat([1, 0], [0, 0, 0, 1]), ...repeat([-1, 0], [0, 1, 1, 1])];
    const fit = fitPosthoc('vector', rows);
    expect(fit.status).toBe('under-determined');
    expect(fit.weights[0]).toBeCloseTo(Math.log(3), 8);
    expect(fit.weights[1]).toBe(1);
    fit.biases.forEach((bias) => expect(bias).toBeCloseTo(0, 8));
    expect(fit.nll_before).toBeCloseTo(Math.log1p(Math.E) - 0.75, 8);
    expect(fit.nll_after).toBeCloseTo(-0.75 * Math.log(0.75) - 0.25 * Math.log(0.25), 8);
    expect(applyPosthoc(fit, { logits: [1, 0] })[0]).toBeCloseTo(0.75, 8);
    expect(applyPosthoc(fit, { logits: [1, 5] })[1]).toBeGreaterThan(0.9);
  });

  it('fits the level alone where all rows are equal', () => {
    const fit = fitPosthoc('vector', repeat([2, 0, 1], [0, 0, 1, 2]));
    expect(fit.status).toBe('constant-scores');
    expect(fit.weights).toEqual([1, 1, 1]);
    expect(fit.biases.reduce((a, b) => a + b)).toBeCloseTo(0, 8);
    [0.5, 0.25, 0.25].forEach((p, k) => expect(applyPosthoc(fit, { logits: [2, 0, 1] })[k]).toBeCloseTo(p, 8));
  });

  it('fits smoothed targets where classes are separable', () => {
    // Targets (3 + 1) / (3 + 2) and 1 / 5: log-odds of ln 4 either way.
    const fit = fitPosthoc('vector', [...repeat([1, 0], [0, 0, 0]), ...repeat([-1, 0], [1, 1, 1])]);
    expect(fit.status).toBe('separable');
    expect(fit.weights[0]).toBeCloseTo(Math.log(4), 8);
    expect(applyPosthoc(fit, { logits: [1, 0] })[0]).toBeCloseTo(0.8, 8);
  });

  it('knows separation that ties keep from being complete', () => {
    const rows = [...repeat([1, 0], [0, 0]), ...repeat([0, 0], [0, 1]), ...repeat([-1, 0], [1, 1])];
    expect(fitPosthoc('vector', rows).status).toBe('separable');
    expect(fitPosthoc('vector', [...rows, { logits: [-1, 0], label: 0 }]).status).toBe('under-determined');
  });

  it('fits smoothed targets where a class is never the label, or there is one row', () => {
    const absent = fitPosthoc('vector', [...repeat([1, 0, 0], [0, 0, 1]), ...repeat([0, 1, 2], [1, 1, 0])]);
    expect(absent.status).toBe('class-absent');
    expect(applyPosthoc(absent, { logits: [1, 0, 0] })[2]).toBeCloseTo(1 / 6, 8); // both labels have 3 rows: 1 / (3 + 3)
    const single = fitPosthoc('vector', [{ logits: [3, 1], label: 1 }]);
    expect(single.status).toBe('class-absent');
    expect(applyPosthoc(single, { logits: [3, 1] })[1]).toBeCloseTo(2 / 3, 8);
  });

  it('gives the best it found where the search is cut short', () => {
    const rows = [...repeat([1, 0, 2], [0, 1, 2]), ...repeat([9, 0, 3], [0, 1, 0]), ...repeat([1, 8, 5], [0, 1, 1, 2])];
    const fit = fitPosthoc('vector', rows, { maxIterations: 1 });
    expect(fit.status).toBe('not-converged');
    expect(fit.nll_after).toBeLessThanOrEqual(fit.nll_before);
    expect(fitPosthoc('vector', rows).status).toBe('converged');
  });

  it('takes logits of any size and offset', () => {
    const rows = [...repeat([1, 0], [0, 0, 0, 1]), ...repeat([-1, 0.5], [0, 1, 1, 1]), ...repeat([0, -1], [0, 1, 1])];
    const right = fitPosthoc('vector', rows);
    for (const [scale, offset] of [[1e-6, 0], [1e6, 0], [1, 1e4], [1e50, 0]] as const) {
      const moved = rows.map(({ logits, label }) => ({ logits: logits.map((z) => scale * z + offset), label }));
      const fit = fitPosthoc('vector', moved);
      expect(fit.status).toBe('converged');
      expect(fit.nll_after).toBeCloseTo(right.nll_after, 8);
      fit.weights.forEach((w, k) => expect((w * scale) / right.weights[k]! - 1).toBeCloseTo(0, 6));
    } // prettier-ignore
  });

  it('follows the order of the classes', () => {
    const logit = fc.integer({ min: -24, max: 24 }).map((k) => k / 8);
    const row = fc.record({ logits: fc.array(logit, { minLength: 3, maxLength: 3 }), label: fc.nat(2) });
    const order = fc.shuffledSubarray([0, 1, 2], { minLength: 3 });
    fc.assert(
      fc.property(fc.array(row, { minLength: 30, maxLength: 60 }), order, (rows, from) => {
        const fit = fitPosthoc('vector', rows);
        const moved = rows.map(({ logits, label }) => ({
          logits: from.map((k) => logits[k]!),
          label: from.indexOf(label),
        }));
        const other = fitPosthoc('vector', moved);
        expect(other.status).toBe(fit.status);
        if (fit.status === 'not-converged') return;
        from.forEach((k, at) => {
          expect(Math.abs(other.weights[at]! - fit.weights[k]!)).toBeLessThan(1e-6 * (1 + Math.abs(fit.weights[k]!)));
          expect(Math.abs(other.biases[at]! - fit.biases[k]!)).toBeLessThan(1e-6 * (1 + Math.abs(fit.biases[k]!)));
        });
      }),
    );
  });
});
