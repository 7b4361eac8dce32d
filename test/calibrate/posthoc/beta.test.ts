import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc } from '../../../src/calibrate/posthoc';
import { repeatProbs } from './cases';

describe('beta calibration', () => {
  it('has three levels give the rates at them', () => {
    // 1/4 at 0.2, 1/2 at 0.5 and 3/4 at 0.8: symmetric, so a = b and c = 0; a ln 4 = ln 3.
    const rows = [
      ...repeatProbs([0.8, 0.2], [0, 0, 0, 1]),
      ...repeatProbs([0.5, 0.5], [0, 1]),
      ...repeatProbs([0.2, 0.8], [0, 1, 1, 1]),
    ];
    const { status, maps } = fitPosthoc('beta', rows);
    expect(status).toBe('converged');
    expect(maps[0]!.a).toBeCloseTo(Math.log(3) / Math.log(4), 8);
    expect(maps[0]!.b).toBeCloseTo(Math.log(3) / Math.log(4), 8);
    expect(maps[0]!.c).toBeCloseTo(0, 8);
  });

  it('is the nearest to the identity of those that are as good', () => {
    // Two levels for three parameters. The identity is as good as any where the rates are the probabilities.
    const rows = [...repeatProbs([0.75, 0.25], [0, 0, 0, 1]), ...repeatProbs([0.25, 0.75], [0, 1, 1, 1])];
    const fit = fitPosthoc('beta', rows);
    expect(fit.status).toBe('under-determined');
    expect(fit.maps[0]!.a).toBeCloseTo(1, 8);
    expect(fit.maps[0]!.b).toBeCloseTo(1, 8);
    expect(fit.maps[0]!.c).toBeCloseTo(0, 8);
    expect(fit.nll_after).toBeCloseTo(fit.nll_before, 8);
  });

  it('is level where the label becomes less probable as p rises', () => {
    const rows = [
      ...repeatProbs([0.8, 0.2], [1, 1, 1, 0]),
      ...repeatProbs([0.4, 0.6], [1, 0]),
      ...repeatProbs([0.2, 0.8], [1, 0, 0, 0]),
    ];
    const { status, maps } = fitPosthoc('beta', rows);
    expect([status, maps[0]!.a, maps[0]!.b]).toEqual(['converged', 0, 0]);
    expect(maps[0]!.c).toBeCloseTo(0, 8);
  });

  it('keeps one weight where the other would be negative', () => {
    // log-odds of the rates are -3 log(1 - p) - log p + c: a would be -1.
    const at = [0.1, 0.3, 0.5, 0.7, 0.9];
    const rows = at.flatMap((p) => {
      const ones = Math.round(2000 / (1 + Math.exp(Math.log(p) + 3 * Math.log(1 - p) - -1.5)));
      return repeatProbs(
        [1 - p, p],
        Array.from({ length: 2000 }, (_, i) => (i < ones ? 1 : 0)),
      );
    });
    const { status, maps } = fitPosthoc('beta', rows);
    expect([status, maps[0]!.a]).toEqual(['converged', 0]);
    expect(maps[0]!.b).toBeGreaterThan(0);
  });

  it('takes probabilities of 0 and 1', () => {
    const rows = [
      ...repeatProbs([1, 0], [0, 0, 1]),
      ...repeatProbs([0, 1], [1, 1, 0]),
      ...repeatProbs([0.5, 0.5], [0, 1]),
    ];
    const fit = fitPosthoc('beta', rows);
    expect(fit.status).toBe('converged');
    expect(applyPosthoc(fit, { probs: [1, 0] })[0]).toBeCloseTo(2 / 3, 6);
  });
});
