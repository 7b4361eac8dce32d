import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { adaptiveTable, binIndex, binTable, expectedGap } from '../../src/metrics';
import { casesOf, references } from './reference';

const pairs = fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 1)), {
  minLength: 1,
  maxLength: 80,
});
const split = (list: [number, number][]) => [list.map(([c]) => c), list.map(([, y]) => y)] as const;

describe('binIndex', () => {
  it('puts an edge k/M into bin k, and 1 into the last', () => {
    for (const bins of [1, 2, 3, 7, 10, 15, 100]) {
      for (let k = 0; k < bins; k++) expect(binIndex(k / bins, bins)).toBe(k);
      expect(binIndex(1, bins)).toBe(bins - 1);
    }
  });

  it('compares instead of multiplying', () => {
    expect(binIndex(0.3, 10)).toBe(3);
    expect(binIndex(0.29, 100)).toBe(29); // 0.29 * 100 is 28.999…
    expect(binIndex(0.1 * 3, 10)).toBe(3); // 0.30000000000000004
    expect(binIndex(0.6 - Number.EPSILON, 10)).toBe(5);
  });

  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agrees with the edge table: ${name}`, () => {
      const { rows } = read().edge_table;
      expect(rows.length).toBeGreaterThan(10);
      for (const row of rows) {
        expect([row.conf, binIndex(row.conf, 10)]).toEqual([row.conf, row.ge_lt_10]);
        expect([row.conf, binIndex(row.conf, 15)]).toEqual([row.conf, row.ge_lt_15]);
      }
    });
  }
});

describe('binTable', () => {
  it('has every bin, null means where empty, edges the doubles k/M', () => {
    expect(binTable([0.95, 1], [1, 0], 2)).toEqual([
      { lo: 0, hi: 0.5, count: 0, mean_confidence: null, accuracy: null },
      { lo: 0.5, hi: 1, count: 2, mean_confidence: 0.975, accuracy: 0.5 },
    ]);
    expect(binTable([0.5], [1], 10).map(({ lo }) => lo)).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]);
    expect(binTable([], [], 3).map(({ count }) => count)).toEqual([0, 0, 0]);
  });

  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agrees row by row: ${name}`, () => {
      for (const c of casesOf(read(), 'conf_correct')) {
        for (const bins of ['10', '15'] as const) {
          binTable(c.conf, c.correct, Number(bins)).forEach((row, k) => {
            const right = c.bins[bins].ge_lt.reliability[k]!;
            expect([c.id, k, row.count]).toEqual([c.id, k, right.count]);
            if (right.mean_conf === null) expect([row.mean_confidence, row.accuracy]).toEqual([null, null]);
            else expect(row.mean_confidence).toBeCloseTo(right.mean_conf, 12);
            if (right.acc !== null) expect(row.accuracy).toBeCloseTo(right.acc, 12);
          });
        }
      }
    });
  }

  it('drops nothing and keeps means inside their bins', () => {
    fc.assert(
      fc.property(pairs, fc.integer({ min: 1, max: 40 }), (list, bins) => {
        const table = binTable(...split(list), bins);
        expect(table.length).toBe(bins);
        expect(table.reduce((n, { count }) => n + count, 0)).toBe(list.length);
        for (const { lo, hi, mean_confidence: c } of table) {
          if (c !== null) expect(c > lo - 1e-12 && c < hi + 1e-12).toBe(true);
        }
      }),
    );
  });

  it('counts 300 and sums in float64 (M-16)', () => {
    const last = binTable(new Float32Array(300).fill(0.999), new Float64Array(300).fill(1)).at(-1)!;
    expect(last.count).toBe(300);
    expect(last.mean_confidence).toBeCloseTo(Math.fround(0.999), 12);
    expect(last.accuracy).toBe(1);
  });

  it('refuses what is no confidence, outcome or number of bins', () => {
    expect(() => binTable([0.5], [1], 0)).toThrow(CalmError);
    expect(() => binTable([0.5], [1], 2.5)).toThrow('number of bins is 2.5');
    expect(() => binTable([0.5], [1, 0])).toThrow('1 confidences but 2 outcomes');
    expect(() => binTable([NaN], [1])).toThrow('confidence 1 is NaN');
    expect(() => binTable([0.5, 1.01], [1, 1])).toThrow('confidence 2 is 1.01');
    expect(() => binTable([-0.01], [1])).toThrow('not in [0, 1]');
    expect(() => binTable([0.5], [0.5])).toThrow('outcome 1 is 0.5');
  });
});

describe('adaptiveTable', () => {
  it('cuts sorted values into runs as array_split does', () => {
    const table = adaptiveTable([0.5, 0.1, 0.9, 0.3, 0.7], [1, 0, 1, 0, 1], 2);
    expect(table).toEqual([
      { lo: 0.1, hi: 0.5, count: 3, mean_confidence: (0.1 + 0.3 + 0.5) / 3, accuracy: 1 / 3 },
      { lo: 0.7, hi: 0.9, count: 2, mean_confidence: 0.8, accuracy: 1 },
    ]);
  });

  it('separates ties in the order of the input', () => {
    const table = adaptiveTable([0.8, 0.8, 0.8, 0.8], [1, 1, 0, 0], 2);
    expect(table.map(({ accuracy }) => accuracy)).toEqual([1, 0]);
    expect(expectedGap(table)).toBeCloseTo(0.5, 12);
  });

  it('has one row a pair when there are fewer pairs than bins', () => {
    expect(adaptiveTable([0.2, 0.1], [1, 0], 10).map(({ count, lo }) => [count, lo])).toEqual([
      [1, 0.1],
      [1, 0.2],
    ]);
  });

  it('drops nothing and balances the counts', () => {
    fc.assert(
      fc.property(pairs, fc.integer({ min: 1, max: 40 }), (list, bins) => {
        const counts = adaptiveTable(...split(list), bins).map(({ count }) => count);
        expect(counts.reduce((a, b) => a + b, 0)).toBe(list.length);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }),
    );
  });
});
