import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logitsOf, logProbabilities, probsOf } from '../../../src/calibrate/posthoc/rows';
import { logSoftmax } from '../../../src/metrics';

function logs(z: number[]) {
  const found: { log: number[]; rest: number[] } = { log: [], rest: [] };
  logProbabilities(z, found.log, found.rest);
  return found;
}

describe('logProbabilities', () => {
  it('gives log p and log(1 - p)', () => {
    const { log, rest } = logs([Math.log(0.5), Math.log(0.3), Math.log(0.2)]);
    [0.5, 0.3, 0.2].forEach((p, k) => {
      expect(log[k]).toBeCloseTo(Math.log(p), 14);
      expect(rest[k]).toBeCloseTo(Math.log(1 - p), 14);
    });
  });

  it('keeps what a probability next to 1 leaves over', () => {
    const { log, rest } = logs([100, 0, 1]);
    expect(log[0]).toBeCloseTo(-Math.exp(-100) * (1 + Math.E), 50);
    expect(rest[0]).toBeCloseTo(-100 + Math.log1p(Math.E), 12);
    expect(rest[1]).toBe(-Math.exp(-100));
    expect(logs([705, 5]).rest[0]).toBeCloseTo(-700, 12); // exp(-700) is hardly a double
  });

  it('is never infinite', () => {
    for (const z of [[1e308, -1e308], [0, -5000, -5000], [-Number.MAX_VALUE, 0, 3]]) {
      const { log, rest } = logs(z);
      expect([...log, ...rest].every(Number.isFinite)).toBe(true);
      expect(Math.min(...log)).toBeCloseTo(-744.44, 2);
    } // prettier-ignore
  });

  it('has log-odds z_1 - z_0 of two options', () => {
    fc.assert(
      fc.property(
        fc.double({ min: -300, max: 300, noNaN: true }),
        fc.double({ min: -9, max: 9, noNaN: true }),
        (a, b) => {
          const { log, rest } = logs([a, b]);
          expect(log[1]! - rest[1]!).toBeCloseTo(b - a, 9);
          expect(log[0]).toBeCloseTo(logSoftmax([a, b])[0]!, 10);
        },
      ),
    );
  });
});

describe('a row', () => {
  it('is read as it was given', () => {
    expect(logitsOf({ logits: [3, 1] })).toEqual([3, 1]);
    expect(probsOf({ logits: [1, 1] })).toEqual([0.5, 0.5]);
    expect(probsOf({ probs: [0.3, 0.7] })).toEqual([0.3, 0.7]);
  });

  it('counts a probability below 2^-52 as that where its logarithm is taken', () => {
    expect(logitsOf({ probs: [1, 0] })).toEqual([0, -52 * Math.log(2)]);
    expect(logitsOf({ probs: [1, 1e-30] })[1]).toBe(-52 * Math.log(2));
  });
});
