import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sortScores } from '../../../src/calibrate/posthoc/sort';
import { Random } from '../../../src/engine/random';

describe('sortScores', () => {
  const check = (values: number[]) => {
    const sorted = Float64Array.from(values);
    sortScores(sorted);
    expect(sorted).toEqual(Float64Array.from(values, (value) => value + 0).sort());
  };

  it('sorts few and many, with ties, tiny and equal numbers', () => {
    const score = fc.oneof(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.integer({ min: 0, max: 8 }).map((k) => k / 8),
      fc.constantFrom(-0, 0, 1, 5e-324, 1e-300),
      fc.integer({ min: 0, max: 99 }).map((k) => 1 - k * 2 ** -53), // the same high word
    );
    fc.assert(
      fc.property(
        fc.array(score, { maxLength: 40 }),
        fc.array(score, { minLength: 600, maxLength: 900 }),
        (few, many) => {
          check(few);
          check(many);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('sorts random numbers of many sizes', () => {
    const random = Random.seed(1);
    for (const n of [501, 5000, 70_000]) check(Array.from({ length: n }, () => Math.exp(9 * random.normal())));
  });
});
