import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Plan } from '../../src/experiments';
import { pointFolder } from '../../src/experiments/perform';
import { previewSweep, sweep, type SweepOptions } from '../../src/experiments/sweep';
import { readJsonl } from '../evaluate/tiny-folder';
import { runsOf, stubs } from './stub';
import { SMALL, tinyPlan } from './tiny-plan';

const { folder, at, command } = stubs();
const go = (out: string, changes: Partial<Plan> = {}, options: Partial<SweepOptions> = {}) =>
  sweep(tinyPlan(folder, { seeds: [0, 1], ...changes }), { out, command, poll: 50, ...options });
const rows = (out: string) => readJsonl<{ id: string }>(path.join(out, 'rows.jsonl')).map(({ id }) => id);

describe('a sweep', () => {
  it('writes one row a point in the order of the plan, and what is chosen', async () => {
    const out = at('whole');
    const { summary, failed, stopped } = await go(out, {}, { parallel: 2 });
    expect([failed, stopped, summary.missing]).toEqual([[], false, []]);
    expect(rows(out).map((id) => id.replace(/-[0-9a-f]+$/, ''))).toEqual(['id-baseline-s0', 'id-ts-s0', 'id-calm-s0', 'id-calm-s1']); // prettier-ignore
    expect(summary.chosen.map(({ label, status }) => [label, status])).toEqual([
      ['baseline', 'selected'],
      ['ts', 'selected'],
      ['calm', 'selected'],
    ]);
    expect(JSON.parse(fs.readFileSync(path.join(out, 'summary.json'), 'utf8'))).toEqual(summary);
    expect(fs.readdirSync(out).sort()).toEqual(['plan.json', 'points', 'rows.jsonl', 'summary.json']);
  });

  it('of a changed plan runs what has changed', async () => {
    const out = at('changed');
    const first = await go(out);
    const [id] = first.summary.chosen[0]!.chosen!.ids;
    const methods = ['baseline', 'ts', { method: 'calm', options: { ...SMALL, rank: 2 } }];
    const { summary } = await go(out, { methods, seeds: [0, 1, 2] });
    expect([summary.points, summary.done]).toEqual([5, 5]);
    expect(runsOf(out, id!)).toBe(1);
    expect(fs.readdirSync(path.join(out, 'points'))).toHaveLength(4 + 3);
    expect(rows(out)).toHaveLength(5);
  });

  it('does not run again what an earlier sweep has rows of', async () => {
    await go(at('earlier'), { seeds: [0] });
    const out = at('later');
    const { summary } = await go(out, {}, { known: path.join(at('earlier'), 'rows.jsonl') });
    expect(summary.done).toBe(4);
    const ran = rows(out).map((id) => runsOf(out, id));
    expect(ran).toEqual([0, 0, 0, 1]);
    expect(readJsonl(path.join(out, 'rows.jsonl')).slice(0, 3)).toEqual(
      readJsonl(path.join(at('earlier'), 'rows.jsonl')),
    );
  });

  it('says what failed, and how long its points took', async () => {
    process.env['STUB'] = JSON.stringify({ fails: 'out of luck', ms: 100 });
    try {
      const { failed, summary, seconds, point_seconds } = await go(at('failing'));
      expect(failed.map(({ reason }) => reason)).toEqual(Array(4).fill('out of luck'));
      expect(summary).toMatchObject({ done: 0, points: 4 });
      expect(point_seconds).toBeGreaterThan(0.4);
      expect(seconds).toBeGreaterThan(point_seconds);
    } finally {
      delete process.env['STUB'];
    }
    expect((await go(at('failing'))).summary.done).toBe(4);
  });

  it('takes next to no time of its own', async () => {
    process.env['STUB'] = JSON.stringify({ ms: 1500 });
    try {
      const { seconds, point_seconds } = await go(at('timed'), { methods: ['ts'] });
      // 0.05 s on an idle machine; a busy one may take a few times that.
      expect(seconds - point_seconds).toBeLessThan(0.3);
    } finally {
      delete process.env['STUB'];
    }
  });

  it('refuses a folder of another plan, or one that cannot be written', async () => {
    const out = at('mine');
    await go(out, { methods: ['ts'] });
    await expect(go(out, { name: 'other' })).rejects.toThrow(/holds the sweep tiny, not other/);
    fs.writeFileSync(at('file'), '');
    await expect(go(at('file/out'))).rejects.toThrow(/cannot write .*a part of the path is not a folder/);
    await expect(go('/proc/calm')).rejects.toThrow(/cannot write /);
  });

  it('keeps a row that is there when a later write fails', async () => {
    const out = at('kept');
    await go(out, { methods: ['ts'] });
    const before = fs.readFileSync(path.join(out, 'rows.jsonl'), 'utf8');
    fs.rmSync(path.join(out, 'rows.jsonl'));
    fs.mkdirSync(path.join(out, 'rows.jsonl'));
    await expect(go(out, { methods: ['ts'] })).rejects.toThrow(/cannot write .*rows\.jsonl: is a folder/);
    fs.rmdirSync(path.join(out, 'rows.jsonl'));
    await go(out, { methods: ['ts'] });
    expect(fs.readFileSync(path.join(out, 'rows.jsonl'), 'utf8')).toBe(before);
  });

  it('is estimated by what is reckoned, then by what was measured', async () => {
    const plan = tinyPlan(folder, { seeds: [0, 1] });
    const before = await previewSweep(plan);
    expect(before.points).toHaveLength(4);
    expect(before.points.every(({ measured, done, seconds }) => !measured && !done && seconds > 0)).toBe(true);
    const out = at('estimated');
    await go(out);
    fs.rmSync(path.join(pointFolder(out, before.points[3]!.id), 'row.json'));
    const after = await previewSweep(plan, out);
    expect(after.points.map(({ done }) => done)).toEqual([true, true, true, false]);
    expect(after.points[3]).toMatchObject({ measured: true });
    expect(after.seconds).toBe(after.points[3]!.seconds);
  });
});
