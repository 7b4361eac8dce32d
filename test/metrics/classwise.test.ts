import { describe, expect, it } from 'vitest';
import { classwiseEce, classwiseTotalTable, confEce, cwEce, expectedGap } from '../../src/metrics';
import { casesOf, references, tolerance } from './reference';

describe('class-wise errors', () => {
  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agree with the reference: ${name}`, () => {
      for (const c of casesOf(read(), 'probs')) {
        const near = (a: number, b: number) =>
          expect(Math.abs(a - b), c.id).toBeLessThanOrEqual(tolerance(c.labels.length));
        for (const bins of ['10', '15'] as const) {
          const got = classwiseEce(c, Number(bins));
          const right = c.classwise[bins].ge_lt;
          near(got.mean, right.mean);
          near(cwEce(c, Number(bins)), right.mean);
          near(got.max, right.max);
          expect(got.per_class.length).toBe(right.per_class.length);
          got.per_class.forEach((value, j) => near(value, right.per_class[j]!));

          const total = c.classwise_total_reliability[bins].ge_lt;
          const table = classwiseTotalTable(c, Number(bins));
          near(expectedGap(table), total.ece);
          table.forEach((row, k) => {
            const { count, mean_conf, acc } = total.reliability[k]!;
            expect([c.id, k, row.count]).toEqual([c.id, k, count]);
            if (count === 0) expect([row.mean_confidence, row.accuracy]).toEqual([null, null]);
            else {
              near(row.mean_confidence!, mean_conf!);
              near(row.accuracy!, acc!);
            }
          });
        }
      }
    });
  }

  it('M-8: a class that never is a label has accuracy 0', () => {
    const never = { probs: [[0.9, 0.1], [0.8, 0.2]], labels: [0, 0] }; // prettier-ignore
    expect(confEce([0.9, 0.8], [1, 1], 10)).toBeCloseTo(0.15, 12);
    const { per_class, mean, max } = classwiseEce(never);
    expect(per_class[0]).toBeCloseTo(0.15, 12);
    expect(per_class[1]).toBeCloseTo(0.15, 12);
    expect(mean).toBeCloseTo(0.15, 12);
    expect(max).toBeCloseTo(0.15, 12);
  });

  it('counts a class only in the rows that have it', () => {
    const mixed = { probs: [[0.35, 0.65], [0.05, 0.15, 0.8]], labels: [1, 2] }; // prettier-ignore
    const { per_class } = classwiseEce(mixed);
    expect(per_class.length).toBe(3);
    expect(per_class[0]).toBeCloseTo((0.35 + 0.05) / 2, 12);
    expect(per_class[1]).toBeCloseTo((0.35 + 0.15) / 2, 12);
    expect(per_class[2]).toBeCloseTo(0.2, 12);
    expect(classwiseTotalTable(mixed).reduce((n, { count }) => n + count, 0)).toBe(5);
  });

  it('refuses no rows, and lists that do not pair up', () => {
    expect(() => cwEce({ probs: [], labels: [] })).toThrow('there are no predictions');
    expect(() => cwEce({ probs: [[0.5, 0.5]], labels: [0, 1] })).toThrow('1 rows but 2 labels');
  });
});
