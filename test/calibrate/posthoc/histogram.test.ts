import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc, type PosthocFit } from '../../../src/calibrate/posthoc';
import { repeatProbs } from './cases';

const pairs = (list: [p: number, label: number][]) => list.flatMap(([p, label]) => repeatProbs([1 - p, p], [label]));
const at = (fit: PosthocFit, p: number) => applyPosthoc(fit, { probs: [1 - p, p] })[1]!;

describe('histogram binning', () => {
  it('gives the rate of each bin, and its middle where it is empty', () => {
    const rows = pairs([[0.1, 0], [0.2, 1], [0.3, 0], [0.4, 1], [0.9, 1], [1, 0], [1, 1]]); // prettier-ignore
    const fit = fitPosthoc('histogram', rows, { bins: 5 });
    expect(fit.maps[0]).toEqual({
      status: 'converged',
      edges: [0.2, 0.4, 0.6, 0.8],
      values: [0, 0.5, 1, 0.7, 2 / 3],
      counts: [1, 2, 1, 0, 3],
    });
    expect([0, 0.19, 0.2, 0.4, 0.65, 1].map((p) => at(fit, p))).toEqual([0, 0, 0.5, 1, 0.7, 2 / 3]);
  });

  it('has the edges k / M of the metrics: 0.29 of 100 bins is in bin 29', () => {
    const { maps } = fitPosthoc('histogram', pairs([[0.29, 1], [0.1, 0]]), { bins: 100 }); // prettier-ignore
    expect(maps[0]!.counts[29]).toBe(1);
  });

  it('cuts bins of equal mass between scores, and keeps equal ones together', () => {
    const rows = pairs([[0.1, 0], [0.3, 0], [0.5, 1], [0.5, 0], [0.5, 1], [0.9, 1]]); // prettier-ignore
    const fit = fitPosthoc('histogram', rows, { bins: 3, binning: 'equal-mass' });
    expect(fit.maps[0]!.edges).toEqual([0.4]); // the cut after the fourth is among the 0.5s
    expect(fit.maps[0]!.values).toEqual([0, 0.75]);
    const few = fitPosthoc('histogram', rows.slice(0, 2), { bins: 10, binning: 'equal-mass' });
    expect(few.maps[0]!.edges).toEqual([0.2]);
  });

  it('says where the scores or the outcomes do not vary', () => {
    expect(fitPosthoc('histogram', pairs([[0.3, 0], [0.3, 1]])).status).toBe('constant-scores'); // prettier-ignore
    expect(fitPosthoc('histogram', pairs([[0.3, 1], [0.6, 1]])).status).toBe('class-absent'); // prettier-ignore
  });

  it('divides by the sum of three classes', () => {
    const rows = [...repeatProbs([0.6, 0.3, 0.1], [0, 0, 1, 2]), ...repeatProbs([0.2, 0.2, 0.6], [2, 2, 1, 1])];
    const probs = applyPosthoc(fitPosthoc('histogram', rows, { bins: 2 }), { probs: [0.6, 0.3, 0.1] });
    // Rates 2/4 in the upper bin of the first class, 3/8 and 1/4 in the lower ones of the others.
    [0.5, 0.375, 0.25].forEach((rate, k) => expect(probs[k]).toBeCloseTo(rate / 1.125, 12));
  });
});
