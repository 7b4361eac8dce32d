import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logSoftmax, logSumExp, softmax } from '../../src/metrics';

describe('softmax', () => {
  it('equals values computed by hand', () => {
    expect(softmax([0, 1])[1]).toBeCloseTo(1 / (1 + Math.exp(-1)), 15);
    expect(softmax([0, 1])[1]).toBeCloseTo(0.7310585786300049, 15);
    expect(softmax([0, Math.log(3)], 1)[1]).toBeCloseTo(0.75, 15);
    expect(softmax([0, 2 * Math.log(3)], 2)[1]).toBeCloseTo(0.75, 15);
    expect(softmax([1, 1, 1, 1])).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  it('does not overflow or underflow (L-11)', () => {
    expect(softmax([1e4, 1e4 + Math.log(3)])[1]).toBeCloseTo(0.75, 11);
    expect(0 - logSoftmax([-431, 279, 427])[0]!).toBe(858);
    expect(logSumExp([1e308, 1e308])).toBe(1e308);
    expect(logSumExp([-1e9, -1e9])).toBeCloseTo(-1e9 + Math.log(2), 6);
  });

  it('takes -Infinity as probability 0, at every temperature', () => {
    expect(softmax([-Infinity, 0, 0])).toEqual([0, 0.5, 0.5]);
    expect(logSoftmax([-Infinity, 0, 0])[1]).toBeCloseTo(-Math.log(2), 15);
    expect(logSoftmax([-Infinity, 0, 0])[0]).toBe(-Infinity);
    expect(logSumExp([-Infinity, -Infinity])).toBe(-Infinity);
    expect(softmax([-Infinity, 3, 0], Infinity)).toEqual([0, 0.5, 0.5]);
    expect(softmax([-Infinity, 3, 0], 0)).toEqual([0, 1, 0]);
  });

  it('has its limits at T = 0 and T = Infinity', () => {
    expect(softmax([5, 5, 1], 0)).toEqual([0.5, 0.5, 0]);
    expect(softmax([5, 4, 1, -9], Infinity)).toEqual([0.25, 0.25, 0.25, 0.25]);
    expect(logSoftmax([5, 4], Infinity)[0]).toBeCloseTo(-Math.log(2), 15);
    expect(logSoftmax([5, 4], 0)).toEqual([0, -Infinity]);
  });

  it('sums to 1, agrees with its logarithm, and ignores a shift', () => {
    const logits = fc.array(fc.double({ min: -50, max: 50, noNaN: true }), { minLength: 1, maxLength: 26 });
    fc.assert(
      fc.property(logits, fc.double({ min: 0.1, max: 10, noNaN: true }), (z, t) => {
        const p = softmax(z, t);
        const log = logSoftmax(z, t);
        const shifted = softmax(
          z.map((value) => value + 8),
          t,
        );
        expect(p.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 12);
        p.forEach((value, k) => {
          expect(Math.exp(log[k]!)).toBeCloseTo(value, 12);
          expect(shifted[k]).toBeCloseTo(value, 12);
        });
      }),
    );
  });
});
