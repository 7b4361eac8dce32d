import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lengthBuckets } from '../../src/data';

describe('lengthBuckets', () => {
  test('longest first, equal lengths in their order, padding counted', () => {
    const { batches, tokens, padded, waste } = lengthBuckets([3, 9, 5, 9, 1], { maxTokens: 18, maxRows: 3 });
    expect(batches).toEqual([
      [1, 3],
      [2, 0, 4],
    ]);
    expect([tokens, padded]).toEqual([27, 33]); // 2 x 9 + 3 x 5
    expect(waste).toBeCloseTo(6 / 33, 12);
  });

  test('a row longer than the limit is a batch by itself', () => {
    expect(lengthBuckets([2, 50, 2], { maxTokens: 8 }).batches).toEqual([[1], [0, 2]]);
  });

  test('no rows, no limits', () => {
    expect(lengthBuckets([], { maxTokens: 8 })).toEqual({ batches: [], tokens: 0, padded: 0, waste: 0 });
    expect(lengthBuckets([1, 2, 3], { maxTokens: Infinity }).batches).toEqual([[2, 1, 0]]);
  });

  test('every row once, within the limits, longest first, the same each time', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 200 });
    const limit = fc.integer({ min: 1, max: 2000 });
    fc.assert(
      fc.property(lengths, limit, fc.integer({ min: 1, max: 40 }), (rows, maxTokens, maxRows) => {
        const result = lengthBuckets(rows, { maxTokens, maxRows });
        const { batches } = result;
        const order = batches.flat();
        expect([...order].sort((a, b) => a - b)).toEqual(rows.map((_, i) => i));
        order.slice(1).forEach((index, i) => expect(rows[index]).toBeLessThanOrEqual(rows[order[i]!]!));
        for (const batch of batches) {
          expect(batch.length).toBeLessThanOrEqual(maxRows);
          if (batch.length > 1) expect(batch.length * rows[batch[0]!]!).toBeLessThanOrEqual(maxTokens);
        }
        const padded = batches.reduce((sum, batch) => sum + batch.length * Math.max(...batch.map((i) => rows[i]!)), 0);
        expect(result.padded).toBe(padded);
        expect(result.tokens).toBe(rows.reduce((sum, n) => sum + n, 0));
        expect(result.waste).toBeGreaterThanOrEqual(0);
        expect(result.waste).toBeLessThan(1);
        expect(lengthBuckets(rows, { maxTokens, maxRows })).toEqual(result);
      }),
    );
  });

  test.each([
    [[0], 8, 8],
    [[1.5], 8, 8],
    [[NaN], 8, 8],
    [[Infinity], 8, 8],
    [[1], 0, 8],
    [[1], 8, -1],
    [[1], NaN, 8],
  ])('refuses lengths %j, limits %d and %d', (lengths, maxTokens, maxRows) => {
    expect(() => lengthBuckets(lengths, { maxTokens, maxRows })).toThrow(RangeError);
  });
});
