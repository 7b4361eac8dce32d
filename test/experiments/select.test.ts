import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { configurationOf, overSeeds, selectPoint } from '../../src/experiments/select';
import { row } from './stub';

type Candidate = { name: string; accuracy: number | null; confEce: number | null };
const candidate = (name: string, accuracy: number | null, confEce: number | null): Candidate => ({
  name,
  accuracy,
  confEce,
});
const chosen = (candidates: Candidate[], base: number | null) => {
  const { status, chosen: one, passed } = selectPoint(candidates, (c) => c, base);
  return [status, one?.name ?? null, passed];
};

describe('the selection rule', () => {
  it('takes the lowest conf-ECE among those above 80 % of the base', () => {
    const grid = [candidate('collapsed', 0.3, 0.01), candidate('good', 0.5, 0.05), candidate('sure', 0.7, 0.3)];
    expect(chosen(grid, 0.6)).toEqual(['selected', 'good', 2]);
    expect(selectPoint(grid, (c) => c, 0.6)).toMatchObject({ considered: 3, threshold: 0.48 });
  });

  it('takes the most accurate, and says so, when none passes', () => {
    const grid = [candidate('a', 0.3, 0.01), candidate('b', 0.4, 0.2), candidate('c', 0.35, 0.1)];
    expect(chosen(grid, 0.9)).toEqual(['none-accurate-enough', 'b', 0]);
  });

  it('wants more than 80 %, not 80 % itself, whatever the rounding', () => {
    for (const base of [0.5, 0.7, 0.65, 0.35, 0.1 + 0.2]) {
      expect(chosen([candidate('at', (base * 4) / 5, 0.1)], base)).toEqual(['none-accurate-enough', 'at', 0]);
    }
    expect(chosen([candidate('one item more', 0.4 + 1e-6, 0.1)], 0.5)).toEqual(['selected', 'one item more', 1]);
  });

  it('decides ties by the other figure, then by order', () => {
    const same = [candidate('a', 0.5, 0.1), candidate('b', 0.6, 0.1), candidate('c', 0.6, 0.1)];
    expect(chosen(same, 0.5)[1]).toBe('b');
    expect(chosen([candidate('a', 0.3, 0.2), candidate('b', 0.3, 0.1)], 0.9)[1]).toBe('b');
  });

  it('never takes a figure that is none, and takes nothing without a base', () => {
    expect(chosen([candidate('nan', 0.9, NaN), candidate('null', null, 0.1), candidate('b', 0.5, 0.4)], 0.5)).toEqual([
      'selected',
      'b',
      1,
    ]);
    expect(chosen([candidate('nan', 0.9, NaN)], 0.5)).toEqual(['incomplete', null, 0]);
    expect(chosen([], 0.5)).toEqual(['incomplete', null, 0]);
    expect(chosen([candidate('a', 0.5, 0.1)], null)).toEqual(['no-base', null, 0]);
    // A base that is never right: anything that ever is passes.
    expect(chosen([candidate('a', 0, 0.1), candidate('b', 0.01, 0.5)], 0)).toEqual(['selected', 'b', 1]);
  });

  it('agrees with a plain search', () => {
    const unit = fc.integer({ min: 0, max: 100 }).map((x) => x / 100);
    fc.assert(
      fc.property(fc.array(fc.tuple(unit, unit), { minLength: 1 }), unit, (pairs, base) => {
        const grid = pairs.map(([accuracy, confEce], i) => candidate(String(i), accuracy, confEce));
        const { status, chosen: one } = selectPoint(grid, (c) => c, base);
        const passing = grid.filter((c) => Math.round(c.accuracy! * 500) > Math.round(base * 400));
        if (passing.length > 0) {
          expect(status).toBe('selected');
          expect(passing).toContain(one);
          expect(one!.confEce).toBe(Math.min(...passing.map((c) => c.confEce!)));
        } else {
          expect(status).toBe('none-accurate-enough');
          expect(one!.accuracy).toBe(Math.max(...grid.map((c) => c.accuracy!)));
        }
      }),
    );
  });
});

describe('over seeds', () => {
  it('gives mean, standard deviation with n - 1, and each value', () => {
    const values = [2, 4, 9].map((value, seed) => ({ seed, value }));
    const { mean, sd, values: listed } = overSeeds(values);
    expect(mean).toBe(5);
    expect(sd).toBeCloseTo(Math.sqrt((9 + 1 + 16) / 2), 12);
    expect(listed).toEqual(values);
    expect(overSeeds([{ seed: 3, value: 7 }])).toMatchObject({ mean: 7, sd: null });
    expect(overSeeds([{ seed: 0, value: 1 }, { seed: 1, value: null }])).toMatchObject({ mean: null, sd: null }); // prettier-ignore
  });

  it('keeps which seed gave what, whatever order they came in', () => {
    const { seeds, ids, validation } = configurationOf([
      row({ id: 'b', seed: 7, ece: 0.3 }),
      row({ id: 'a', seed: 1, ece: 0.1 }),
    ]);
    expect([seeds, ids]).toEqual([
      [1, 7],
      ['a', 'b'],
    ]);
    expect(validation['conf_ece']!.values).toEqual([
      { seed: 1, value: 0.1 },
      { seed: 7, value: 0.3 },
    ]);
    expect(validation['conf_ece']!.sd).toBeCloseTo(0.2 / Math.SQRT2, 12);
  });
});
