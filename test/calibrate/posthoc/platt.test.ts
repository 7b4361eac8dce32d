import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc } from '../../../src/calibrate/posthoc';
import { repeat } from './cases';

describe('Platt scaling', () => {
  it('has two levels of log-odds give the rates at them', () => {
    // 1/4 at log-odds 0 and 3/4 at 2: sigmoid(a 0 + b) = 1/4, sigmoid(2 a + b) = 3/4.
    const fit = fitPosthoc('platt', [...repeat([1, 1], [0, 0, 0, 1]), ...repeat([0, 2], [0, 1, 1, 1])]);
    expect([fit.status, fit.classes, fit.maps.length]).toEqual(['converged', 2, 1]);
    expect(fit.maps[0]!.slope).toBeCloseTo(Math.log(3), 8);
    expect(fit.maps[0]!.intercept).toBeCloseTo(-Math.log(3), 8);
    expect(applyPosthoc(fit, { logits: [0, 2] })[1]).toBeCloseTo(0.75, 8);
    expect(applyPosthoc(fit, { logits: [-1, 1] })[1]).toBeCloseTo(0.75, 8); // log-odds of 2 as well
  });

  it('fits smoothed targets where the scores are separable', () => {
    const rows = [...repeat([1, -1], [0, 0, 0]), ...repeat([-1, 1], [1, 1, 1])];
    const fit = fitPosthoc('platt', rows);
    expect(fit.status).toBe('separable');
    expect(fit.maps[0]!.slope).toBeCloseTo(Math.log(4) / 2, 8); // log-odds of 2 are to give (3 + 1) / (3 + 2)
    const smoothed = fitPosthoc('platt', rows, { targets: 'smoothed' });
    expect(smoothed.status).toBe('converged');
    expect(smoothed.maps[0]!.slope).toBe(fit.maps[0]!.slope);
  });

  it('fits falling maps too', () => {
    const fit = fitPosthoc('platt', [...repeat([0, 2], [0, 0, 0, 1]), ...repeat([2, 0], [0, 1, 1, 1])]);
    expect(fit.maps[0]!.slope).toBeCloseTo(-Math.log(3) / 2, 8);
  });

  it('has a rule of succession where a class is never the label', () => {
    const fit = fitPosthoc('platt', [...repeat([1, 0], [0, 0]), ...repeat([0, 1], [0, 0])]);
    expect(fit.status).toBe('class-absent');
    expect(fit.maps[0]!.slope).toBeCloseTo(0, 8);
    for (const logits of [[1, 0], [0, 9]]) expect(applyPosthoc(fit, { logits })[1]).toBeCloseTo(1 / 6, 8); // prettier-ignore
  });

  it('keeps the slope of 1 where all scores are equal, or there is one row', () => {
    const fit = fitPosthoc('platt', repeat([0, 3], [0, 0, 0, 1]));
    expect([fit.status, fit.maps[0]!.slope]).toEqual(['constant-scores', 1]);
    expect(applyPosthoc(fit, { logits: [0, 3] })[1]).toBeCloseTo(0.25, 8);
    const single = fitPosthoc('platt', [{ logits: [0, 3], label: 1 }]);
    expect([single.status, single.maps[0]!.slope]).toEqual(['class-absent', 1]);
    expect(applyPosthoc(single, { logits: [0, 3] })[1]).toBeCloseTo(2 / 3, 8);
  });

  it('keeps both sides of a probability next to 1', () => {
    const rows = [...repeat([0, 50], [1, 1, 1, 1]), ...repeat([50, 0], [0, 0, 0, 0]), ...repeat([0, -1], [1, 0])];
    const fit = fitPosthoc('platt', [...rows, { logits: [3, 0], label: 1 }]);
    const [low, high] = applyPosthoc(fit, { logits: [0, 400] });
    expect(high).toBe(1);
    expect(low).toBeGreaterThan(0);
  });

  it('of the top label leaves the others in their proportions', () => {
    const rows = [...repeat([2, 1, 0], [0, 0, 1, 2]), ...repeat([0, 5], [1, 1, 1, 0])]; // rows of both lengths
    const fit = fitPosthoc('platt', rows, { construction: 'top-label' });
    expect([fit.classes, fit.maps.length]).toEqual([null, 1]);
    const probs = applyPosthoc(fit, { logits: [2, 1, 0] });
    expect(probs[0]).toBeCloseTo(0.5, 8);
    expect(probs[1]! / probs[2]!).toBeCloseTo(Math.E, 8);
    expect(applyPosthoc(fit, { logits: [0, 5] })[1]).toBeCloseTo(0.75, 8);
    const wide = applyPosthoc(fit, { logits: [0, 0, 0, 0, 9] });
    expect(wide.reduce((a, b) => a + b)).toBeCloseTo(1, 8);
  });
});
