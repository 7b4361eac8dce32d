import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sweep } from '../../src/experiments';
import { Board } from '../../src/experiments/board';
import { cancelOnSlurm, resources, runOnSlurm, script, type SlurmOptions } from '../../src/experiments/slurm';
import { pointsOf } from '../../src/experiments/points';
import type { PointRow } from '../../src/experiments/types';
import { readJsonl } from '../evaluate/tiny-folder';
import { slurmMissing, startSlurm, type SlurmServer } from '../slurm/slurm-server';
import { runsOf, stubs, until, writeStubs, type Stub } from './stub';
import { SMALL, tinyPlan } from './tiny-plan';

const { folder, at, command } = stubs();
const before = { ...process.env };
afterEach(() => {
  process.env['PATH'] = before['PATH'];
});

const defaults = { name: 'calm-test', retries: 2, command, poll: 200 };
async function run(out: string, ids: readonly string[], options: Partial<SlurmOptions> = {}): Promise<Board> {
  const board = new Board(ids);
  await runOnSlurm(out, board, { ...defaults, ...options });
  return board;
}

describe('without a Slurm', () => {
  it('says so', async () => {
    process.env['PATH'] = at('nothing');
    const out = at('absent');
    await expect(run(out, writeStubs(out, { a: {} }))).rejects.toThrow('squeue is not on this machine');
    await expect(cancelOnSlurm(out)).rejects.toThrow('squeue is not on this machine');
    expect(runsOf(out, 'a')).toBe(0);
  });

  it('makes a script and options that keep blanks and quotes', () => {
    const array = { name: 'n', ids: ['a', 'b'] };
    expect(script('/o u', array, ['node', "it's.js"]).split('\n').slice(1, 5)).toEqual([
      'set -- a b',
      'shift "$SLURM_ARRAY_TASK_ID"',
      `folder='/o u/points'/"$1"`,
      `'node' 'it'\\''s.js' "$folder" >>"$folder/log.txt" 2>&1`,
    ]);
    const asked = {
      partition: 'p',
      time: '1:00',
      memory: 1.5,
      gpus: 1,
      cpus: 4,
      parallel: 1,
      extra: ['--account=lab'],
    };
    expect(resources('/o u', array, asked)).toEqual([
      '--job-name=n',
      '--array=0-1%1',
      '--output=/o u/slurm/n-%a.log',
      '--partition=p',
      '--time=1:00',
      '--mem=1536M',
      '--gres=gpu:1',
      '--cpus-per-task=4',
      '--account=lab',
    ]);
  });
});

const missing = slurmMissing();
describe.skipIf(missing !== undefined)(`with a Slurm of one node${missing ? ` (${missing})` : ''}`, () => {
  let server: SlurmServer;
  beforeAll(async () => {
    server = await startSlurm();
    Object.assign(process.env, server.env, { CALM_CACHE: at('cache') });
  });
  afterAll(async () => {
    await server?.stop();
    for (const name of ['SLURM_CONF', 'CALM_CACHE']) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  });

  it('does a grid of 12 as this machine does, though a point is killed and the controller restarted', async () => {
    const rates = [0.1, 0.05, 0.02, 0.01, 0.005];
    const methods = ['baseline', 'ts', { method: 'calm', options: SMALL, grid: { upperRate: rates } }];
    const plan = tinyPlan(folder, { methods, seeds: [0, 1] });
    const local = await sweep(plan, { out: at('local'), parallel: 2 });
    expect(local.summary).toMatchObject({ points: 12, done: 12 });

    const out = at('cluster');
    const going = sweep(plan, { out, executor: 'slurm', memory: 1, parallel: 2, poll: 200, retries: 1 });
    const file = (id: string, name: string) => path.join(out, 'points', id, name);
    const ids = (await pointsOf(plan)).map(({ id }) => id);
    const victim = ids[3]!;
    await until('a point that can be killed', () => fs.existsSync(file(victim, 'claim.json')));
    process.kill((JSON.parse(fs.readFileSync(file(victim, 'claim.json'), 'utf8')) as { pid: number }).pid, 'SIGKILL');
    expect(ids.filter((id) => fs.existsSync(file(id, 'row.json'))).length).toBeLessThan(12);
    await server.stopController();
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await server.startController();

    const { summary, failed } = await going;
    expect([summary.done, failed]).toEqual([12, []]);
    const arrays = fs.readdirSync(path.join(out, 'slurm')).filter((name) => /^calm.*\.json$/.test(name));
    const lists = arrays.map((name) => (JSON.parse(fs.readFileSync(path.join(out, 'slurm', name), 'utf8')) as { ids: string[] }).ids); // prettier-ignore
    expect(lists.sort((a, b) => b.length - a.length)).toEqual([ids, [victim]]);
    const results = (of: string) => readJsonl<PointRow>(path.join(at(of), 'rows.jsonl')).map(({ cost: _cost, ...rest }) => rest); // prettier-ignore
    expect(results('cluster')).toEqual(results('local'));
    expect(summary.chosen).toEqual(local.summary.chosen);
  }, 180_000);

  it('follows what an earlier sweep has submitted, and submits nothing twice', async () => {
    const out = at('followed');
    const ids = writeStubs(out, { a: { ms: 1500 }, b: { ms: 1500 }, c: { ms: 1500 } });
    const stop = new AbortController();
    const first = run(out, ids, { signal: stop.signal });
    await until('the jobs', () => runsOf(out, 'a') === 1);
    stop.abort();
    await first;
    const boards = await Promise.all([run(out, ids), run(out, ids)]);
    for (const board of boards) expect(board.with('done')).toEqual(ids);
    expect(ids.map((id) => runsOf(out, id))).toEqual([1, 1, 1]);
    expect(fs.readdirSync(path.join(out, 'slurm')).filter((name) => name.endsWith('.json'))).toHaveLength(1);
  }, 60_000);

  it('tries again what fails or is ended by Slurm, as often as it may, and says why it gave up', async () => {
    const out = at('retried');
    const stub: Record<string, Stub> = {
      a: { fails: 'once', times: 1 },
      b: { fails: 'no such luck' },
      c: { dies: true },
    };
    const board = await run(out, writeStubs(out, stub), { retries: 1, extra: ['--comment=tried again'] });
    expect(board.with('done')).toEqual(['a']);
    expect([board.get('b').note, runsOf(out, 'b')]).toEqual(['no such luck', 2]);
    expect(board.get('c').note).toMatch(/^exit code 137 on \S+: /);
  }, 60_000);

  it('submits again what was taken out of the queue', async () => {
    const out = at('taken');
    const going = run(out, writeStubs(out, { a: { ms: 60_000 } }));
    await until('the job', () => runsOf(out, 'a') === 1);
    const [job] = execFileSync('squeue', ['-h', '-r', '-o', '%i'], { encoding: 'utf8' }).split('\n');
    writeStubs(out, { a: {} });
    execFileSync('scancel', [job!]);
    expect((await going).with('done')).toEqual(['a']);
    expect(runsOf(out, 'a')).toBe(2);
  }, 60_000);

  it('cancels when asked, for whoever follows too', async () => {
    const out = at('cancelled');
    const ids = writeStubs(out, { a: { ms: 60_000 }, b: {} });
    const going = run(out, ids, { parallel: 1 });
    const ended = expect(going).rejects.toThrow('the sweep was cancelled');
    await until('the job', () => runsOf(out, 'a') === 1);
    expect(await cancelOnSlurm(out)).toBeGreaterThanOrEqual(1);
    await ended;
    expect(await cancelOnSlurm(out)).toBe(0);
    writeStubs(out, { a: {} });
    expect((await run(out, ids)).with('done')).toEqual(ids);
  }, 60_000);

  it('says why a job is refused, or a program is not on the node', async () => {
    const out = at('refused');
    const ids = writeStubs(out, { a: {} });
    await expect(run(out, ids, { partition: 'nowhere' })).rejects.toThrow(
      /^Slurm refused the job: invalid partition specified: nowhere/,
    );
    await expect(run(out, ids, { memory: 1e6 })).rejects.toThrow(/^Slurm refused the job: .*Memory specification/i);
    expect(fs.readdirSync(path.join(out, 'slurm'))).toEqual([]);
    const board = await run(out, ids, { command: ['/no/such/node'], retries: 0 });
    expect(board.get('a').note).toMatch(/^exit code 127 on \S+: .*\/no\/such\/node: not found/);
  }, 60_000);

  it('says when the controller does not answer from the start', async () => {
    await server.stopController();
    try {
      const out = at('silent');
      await expect(run(out, writeStubs(out, { a: {} }))).rejects.toThrow(/^Slurm does not answer/);
    } finally {
      await server.startController();
    }
  }, 60_000);
});
