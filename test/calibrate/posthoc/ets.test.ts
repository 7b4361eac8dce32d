import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc } from '../../../src/calibrate/posthoc';
import { fitTemperature } from '../../../src/calibrate/temperature';
import { Random } from '../../../src/engine/random';
import { softmax } from '../../../src/metrics';
import { repeat, repeatProbs } from './cases';

const entropy = (p: number) => -p * Math.log(p) - (1 - p) * Math.log(1 - p);

describe('ensemble temperature scaling', () => {
  it('reaches by weights what the bounds keep from the temperature', () => {
    // The best temperature is 50 / ln 3, its bound 10; p = 3/4 is a mixture of softmax([5, 0]) and 1/2.
    const rows = repeat([50, 0], [0, 0, 0, 1]);
    const fit = fitPosthoc('ets', rows);
    expect([fit.temperature, fit.temperature_status]).toEqual([10, 'finite']);
    expect(applyPosthoc(fit, { logits: [50, 0] })[0]).toBeCloseTo(0.75, 10);
    expect(fit.nll_after).toBeCloseTo(entropy(0.75), 12);
    expect(fitTemperature(rows).nll_after).toBeGreaterThan(fit.nll_after + 0.1);
    expect(fit.status).toBe('under-determined'); // any of the three parts can be made up of the others
  });

  it('has weights that are none the worse for any change (Karush, Kuhn and Tucker)', () => {
    const random = Random.seed(3);
    const rows = Array.from({ length: 500 }, () => {
      const logits = [0, 1, 2, 3].map(() => 4 * random.normal());
      const q = softmax(logits).map((p) => 0.8 * p + 0.05); // a fifth of the labels at random
      let left = random.uniform();
      const label = q.findIndex((p) => (left -= p) < 0);
      return { logits, label: Math.max(0, label) };
    });
    const fit = fitPosthoc('ets', rows);
    expect(fit.status).toBe('converged');
    expect(fit.weights.reduce((a, b) => a + b)).toBeCloseTo(1, 12);
    const slopes = [0, 0, 0];
    for (const { logits, label } of rows) {
      const parts = [softmax(logits, fit.temperature)[label]!, softmax(logits)[label]!, 0.25];
      const q = parts.reduce((sum, p, c) => sum + fit.weights[c]! * p, 0);
      parts.forEach((p, c) => (slopes[c]! += p / q / rows.length));
    }
    fit.weights.forEach((w, c) => {
      if (w > 0) expect(slopes[c]).toBeCloseTo(1, 7);
      else expect(slopes[c]).toBeLessThanOrEqual(1 + 1e-7);
    });
    expect(fit.weights.filter((w) => w > 0).length).toBeGreaterThan(1);
    expect(fit.nll_after).toBeLessThan(fitTemperature(rows).nll_after);
  });

  it('takes rows of different lengths, masks, and probabilities of 0', () => {
    const rows = [...repeat([2, 0, -Number.MAX_VALUE], [0, 0, 1]), ...repeat([1, 0], [0, 1])];
    const fit = fitPosthoc('ets', rows);
    expect(applyPosthoc(fit, { logits: [1, 2, 3, 4] }).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
    const probs = fitPosthoc('ets', [...repeatProbs([0.9, 0.1, 0], [0, 0, 1]), ...repeatProbs([0.2, 0.8], [1, 0])]);
    expect(Number.isFinite(probs.nll_after)).toBe(true);
    expect(() => fitPosthoc('ets', repeatProbs([0, 1], [0]))).toThrow('row 1: the label has probability 0');
  });

  it('is no worse than changing nothing where the search is cut short', () => {
    const rows = [...repeat([2, 0], [0, 0, 0, 0, 0, 0, 0, 1]), ...repeat([0, 4], [1, 1])];
    const fit = fitPosthoc('ets', rows, { maxIterations: 1 });
    expect(fit.status).toBe('not-converged');
    expect(fit.nll_after).toBeLessThanOrEqual(fit.nll_before);
  });

  it('says how the temperature ended', () => {
    expect(fitPosthoc('ets', repeat([1, 1], [0, 1])).temperature_status).toBe('no-support');
    const sure = fitPosthoc('ets', repeat([3, 0], [0, 0]));
    expect([sure.temperature, sure.temperature_status]).toEqual([0.1, 'at-zero']);
    expect(sure.weights[0]).toBeCloseTo(1, 10);
  });
});
