import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { auroc } from '../../src/metrics';

describe('auroc', () => {
  it('ranks right answers over wrong ones, ties counting a half', () => {
    expect(auroc([0.9, 0.8, 0.3], [1, 1, 0])).toBe(1);
    expect(auroc([0.9, 0.8, 0.3], [0, 0, 1])).toBe(0);
    expect(auroc([0.5, 0.5], [1, 0])).toBe(0.5);
    expect(auroc([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0])).toBe(3.5 / 4);
  });

  it('is null when all are right, or wrong, or there are none', () => {
    expect(auroc([0.9, 0.2], [1, 1])).toBeNull();
    expect(auroc([0.9, 0.2], [0, 0])).toBeNull();
    expect(auroc([], [])).toBeNull();
  });

  it('equals the count over all pairs', () => {
    const list = fc.array(fc.tuple(fc.integer({ min: 0, max: 8 }), fc.constantFrom(0, 1)), { maxLength: 30 });
    fc.assert(
      fc.property(list, (pairs) => {
        const right = pairs.filter(([, y]) => y === 1);
        const wrong = pairs.filter(([, y]) => y === 0);
        const wins = right.flatMap(([a]) => wrong.map(([b]) => (a > b ? 1 : a === b ? 0.5 : 0) as number));
        const expected = wins.length === 0 ? null : wins.reduce((s, w) => s + w, 0) / wins.length;
        const got = auroc(
          pairs.map(([c]) => c / 8),
          pairs.map(([, y]) => y),
        );
        if (expected === null) expect(got).toBeNull();
        else expect(got).toBeCloseTo(expected, 12);
      }),
    );
  });
});
