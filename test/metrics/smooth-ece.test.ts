import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { smoothBandwidth, smoothEce, smoothEceAt } from '../../src/metrics';
import { fixture } from './reference';

interface Reference {
  cases: {
    id: string;
    confidence: number[];
    correct: number[];
    smooth_ece: number;
    bandwidth: number;
    at: Record<string, number>;
  }[];
  calibrated_grid: { smooth_ece: number; bandwidth: number };
}

describe('smoothEce', () => {
  const reference = fixture<Reference>('smooth-ece.json');

  it.each(reference.cases)('equals relplot: $id', ({ confidence, correct, smooth_ece, bandwidth, at }) => {
    expect(smoothBandwidth(confidence, correct)).toBe(bandwidth);
    expect(smoothEce(confidence, correct)).toBeCloseTo(smooth_ece, 12);
    for (const [sigma, right] of Object.entries(at)) {
      expect(smoothEceAt(confidence, correct, Number(sigma))).toBeCloseTo(right, 12);
    }
  });

  it('is 0 on a calibrated grid', () => {
    const confidence: number[] = [];
    const correct: number[] = [];
    for (let k = 0; k <= 100; k++) {
      for (let i = 0; i < 100; i++) {
        confidence.push(k / 100);
        correct.push(i < k ? 1 : 0);
      }
    }
    expect(smoothBandwidth(confidence, correct)).toBe(reference.calibrated_grid.bandwidth);
    expect(smoothEce(confidence, correct)).toBeCloseTo(reference.calibrated_grid.smooth_ece, 12);
  });

  it('is in [0, 1], within the bisection of its bandwidth, and blind to the order of rows', () => {
    const list = fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 1)), {
      minLength: 1,
      maxLength: 30,
    });
    fc.assert(
      fc.property(list, (pairs) => {
        const [confidence, correct] = [pairs.map(([c]) => c), pairs.map(([, y]) => y)];
        const value = smoothEce(confidence, correct);
        expect(value).toBeGreaterThanOrEqual(0);
        expect(value).toBeLessThanOrEqual(1);
        const sigma = smoothBandwidth(confidence, correct);
        if (sigma < 1) expect(value).toBeLessThanOrEqual(sigma);
        expect(smoothEce(confidence.toReversed(), correct.toReversed())).toBeCloseTo(value, 9);
      }),
      { numRuns: 15 },
    );
  });

  it('refuses nothing to average', () => {
    expect(() => smoothEce([], [])).toThrow('there are no predictions');
  });
});
