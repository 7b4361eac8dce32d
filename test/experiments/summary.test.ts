import { describe, expect, it } from 'vitest';
import { summariseRows } from '../../src/experiments/summary';
import type { Point, PointRow } from '../../src/experiments/types';
import { row } from './stub';

const rows = [
  row({ id: 'base', method: 'baseline', accuracy: 0.6, ece: 0.4 }),
  ...[0, 1].flatMap((seed) => [
    row({ id: `a${seed}`, seed, options: { head: 'vector', lowerRate: 1 }, ece: 0.2 + 0.1 * seed, testEce: 0.3 }),
    row({ id: `b${seed}`, seed, options: { head: 'vector', lowerRate: 2 }, ece: 0.3, accuracy: 0.7 }),
    row({ id: `s${seed}`, seed, label: 'calm-scalar', options: { head: 'scalar' }, ece: 0.35, testEce: 0.5, accuracy: 0.2 }), // prettier-ignore
  ]),
];
const pointOf = ({ id, model, setting, label, method, options, varied, seed }: PointRow) =>
  ({ id, model, setting, label, method, options, varied, seed }) as Point;
const points = rows.map(pointOf);

describe('the summary of a sweep', () => {
  it('chooses by means over seeds, each method for itself', () => {
    const { chosen, missing, done } = summariseRows('p', points, rows);
    expect([missing, done]).toEqual([[], 7]);
    expect(chosen.map(({ label, status, chosen: one }) => [label, status, one?.ids])).toEqual([
      ['baseline', 'selected', ['base']],
      ['calm', 'selected', ['a0', 'a1']],
      ['calm-scalar', 'none-accurate-enough', ['s0', 's1']],
    ]);
    expect(chosen[1]!.chosen!.validation['conf_ece']).toMatchObject({ mean: 0.25 });
  });

  it('considers a configuration when all its seeds are there', () => {
    const without = (...ids: string[]) => summariseRows('p', points, rows.filter(({ id }) => !ids.includes(id))); // prettier-ignore
    expect(without('a1').chosen[1]).toMatchObject({ chosen: { ids: ['b0', 'b1'] }, configurations: 2, incomplete: 1 });
    expect(without('a1').missing).toEqual(['a1']);
    expect(without('a1', 'b0').chosen[1]).toMatchObject({ status: 'incomplete', chosen: null, incomplete: 2 });
    expect(without('base').chosen[1]).toMatchObject({ status: 'no-base', chosen: null });
  });

  it('puts scalar beside vector', () => {
    const { scalar_against_vector } = summariseRows('p', points, rows);
    const ece = scalar_against_vector.find(({ metric }) => metric === 'conf_ece')!;
    expect(ece).toMatchObject({ scalar: { label: 'calm-scalar', mean: 0.5 }, vector: { label: 'calm', mean: 0.3 } });
    expect(ece.difference).toBeCloseTo(0.2, 12);
  });

  it('adds up what was measured', () => {
    const { costs, code_versions } = summariseRows('p', points, rows);
    expect(costs[1]).toMatchObject({
      label: 'calm',
      points: 4,
      wall_seconds: { mean: 10, total: 40 },
      peak_memory_mib: 100,
      tokens_trained: 3200,
      tokens_per_second: 100,
    });
    expect(code_versions).toEqual(['1']);
  });
});
