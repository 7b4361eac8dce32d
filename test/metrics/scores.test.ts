import { describe, expect, it } from 'vitest';
import { accuracy, argmax, checkPredictions, meanEntropy, nll, topLabel } from '../../src/metrics';
import { casesOf, references, tolerance } from './reference';

describe('scores', () => {
  it('breaks ties towards the lowest index', () => {
    expect(argmax([0.4, 0.4, 0.2])).toBe(0);
    expect(argmax([0.2, 0.4, 0.4])).toBe(1);
    const ties = { probs: [[0.5, 0.5], [0.2, 0.4, 0.4]], labels: [1, 1] }; // prettier-ignore
    expect(topLabel(ties)).toEqual({ confidence: [0.5, 0.4], correct: [0, 1] });
    expect(accuracy(ties)).toBe(0.5);
  });

  it('gives Infinity where the label has probability 0, and not where only a double underflows', () => {
    expect(nll({ probs: [[0, 1]], labels: [0] })).toBe(Infinity);
    expect(nll({ probs: [[0, 1]], labels: [1] })).toBe(0);
    expect(nll(checkPredictions([{ logits: [0, 1000], label: 0 }]))).toBe(1000);
  });

  it('measures entropy in nats', () => {
    expect(meanEntropy({ probs: [[0.25, 0.25, 0.25, 0.25], [0, 1]] })).toBeCloseTo(Math.log(4) / 2, 15); // prettier-ignore
  });

  it('refuses nothing to average, and lists that do not pair up', () => {
    for (const score of [accuracy, nll, meanEntropy]) {
      expect(() => score({ probs: [], labels: [] })).toThrow('there are no predictions');
    }
    expect(() => nll({ probs: [[0.5, 0.5]], labels: [0, 1] })).toThrow('1 rows but 2 labels');
    expect(() => accuracy({ probs: [[0.5, 0.5]], labels: [0, 1] })).toThrow('1 rows but 2 labels');
  });

  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agree with the reference: ${name}`, () => {
      for (const c of casesOf(read(), 'probs')) {
        const near = (a: number, b: number) =>
          expect(Math.abs(a - b), c.id).toBeLessThanOrEqual(tolerance(c.labels.length));
        near(accuracy(c), c.accuracy);
        near(meanEntropy(c), c.entropy_mean_nats);
        const bare = { probs: c.probs, labels: c.labels };
        if (c.nll === 'Infinity') expect(nll(bare)).toBe(Infinity);
        else near(nll(bare), c.nll);
        if (c.logits && c.nll !== 'Infinity') near(nll({ ...bare, logits: c.logits }), c.nll);
      }
    });
  }
});
