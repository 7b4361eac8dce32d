import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Preview, Swept } from '../../src/experiments';
import { calm, calmJson, failure, workplace } from './calm';

const { at, write } = workplace();
const question = (i: number) => ({ id: `q${i}`, question: `What is ${i}?`, choices: ['this', 'that'], answer: i % 2 });
const questions = (from: number) => Array.from({ length: 8 }, (_, i) => question(from + i));
write('train.jsonl', questions(0));
write('valid.jsonl', questions(100));
write('test.jsonl', questions(200));
const small = { epochs: 1, outerPerEpoch: 1, innerSteps: 1, batch: 4, rank: 2 };
const plan = {
  name: 'tiny',
  model: 'tiny',
  settings: { id: { train: 'train.jsonl', validation: 'valid.jsonl', test: 'test.jsonl' } },
  methods: ['baseline', 'ts', { method: 'calm', options: small }, { method: 'calm-scalar', options: small }],
  resamples: 0,
};
const file = write('plan.json', JSON.stringify(plan));
const before = process.env['CALM_CACHE'];
process.env['CALM_CACHE'] = at('cache');
afterAll(() => {
  if (before === undefined) delete process.env['CALM_CACHE'];
  else process.env['CALM_CACHE'] = before;
});

describe('calm sweep', () => {
  it('says what it would do', async () => {
    const preview = await calmJson<Preview>('sweep', file, '--dry-run');
    expect(preview.points.map(({ label }) => label)).toEqual(['baseline', 'ts', 'calm', 'calm-scalar']);
    expect(preview.seconds).toBeGreaterThan(0);
    const { stdout } = await calm('sweep', file, '--dry-run', '--parallel', '2');
    expect(stdout).toMatch(/^id-baseline-s0-\w+ {2}about 0:05, 0\.5 GiB\n/);
    expect(stdout).toMatch(
      /4 points, 0 done; the others take 0:2\d one after another, 0:1\d by 2, up to 0\.5 GiB each/,
    );
  });

  it('does it, from the command line and once', async () => {
    const { summary, failed } = await calmJson<Swept>('-q', 'sweep', file, '--out', at('out'), '--parallel', '2');
    expect(failed).toEqual([]);
    expect(summary).toMatchObject({ points: 4, done: 4 });
    expect(summary.costs[2]).toMatchObject({ label: 'calm', tokens_trained: expect.any(Number) as number });
    expect(summary.scalar_against_vector[0]).toMatchObject({ metric: 'accuracy', scalar: { label: 'calm-scalar' } });
    const row = fs.readdirSync(path.join(at('out'), 'points')).map((id) => fs.statSync(at(`out/points/${id}/row.json`)).mtimeMs); // prettier-ignore
    const { stdout } = await calm('-q', 'sweep', file, '--out', at('out'));
    expect(stdout).toMatch(/\| tiny \| id \| calm \| \d+\.\d \| 0\.\d{4} \| 1 \|/);
    expect(stdout).toMatch(/4 of 4 points done/);
    expect(fs.readdirSync(path.join(at('out'), 'points')).map((id) => fs.statSync(at(`out/points/${id}/row.json`)).mtimeMs)).toEqual(row); // prettier-ignore
  });

  it('names what failed, after all others are done', async () => {
    // A length that the tiny model cannot read.
    const long = write('long.jsonl', [{ ...question(0), question: 'long '.repeat(300) }]);
    const settings = { id: { ...plan.settings.id, train: long } };
    const broken = write('broken.json', JSON.stringify({ ...plan, name: 'broken', settings }));
    const said = await calm('-q', 'sweep', broken, '--out', at('broken'));
    expect(said.code).toBe(1);
    expect(said.stderr).toMatch(
      /^calm: 2 of 4 points failed: id-calm-s0-\w+ \(.*every row exceeds .*\), .*; see their log\.txt/,
    );
    expect(said.stdout).toMatch(/2 of 4 points done/);
  });

  it.each<[string[], RegExp]>([
    [[file], /the sweep needs a folder; name one with --out/],
    [[file, '--out', at('x'), '--gpus', '1'], /--gpus is for Slurm; add --executor slurm/],
    [[file, '--out', at('x'), '--cancel'], /--cancel is for Slurm/],
    [[file, '--out', at('x'), '--executor', 'kubernetes'], /Expected one of local, slurm/],
    [[file, '--out', at('x'), '--executor', 'slurm', '--sbatch', 'account'], /Expected an option of sbatch/],
    [
      [write('seeds.json', JSON.stringify({ ...plan, seeds: [] })), '--out', at('x')],
      /seeds\.json: seeds: a plan of 0 seeds/,
    ],
  ])('%j is wrong usage', async (words, message) => {
    expect(await failure(2, 'sweep', ...words)).toMatch(message);
    expect(fs.existsSync(at('x'))).toBe(false);
  });

  it('stops at a Ctrl-C, with what is done kept', async () => {
    const methods = ['baseline', { method: 'calm', options: { ...small, epochs: 3000 } }];
    const long = write('endless.json', JSON.stringify({ ...plan, name: 'endless', methods }));
    const main = path.join(__dirname, '../../src/setup/calm.cjs');
    const child = spawn(process.execPath, [main, 'sweep', long, '--out', at('endless')], { detached: true });
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const ended = new Promise((resolve) => child.on('close', resolve));
    const points = () => (fs.existsSync(at('endless/points')) ? fs.readdirSync(at('endless/points')) : []);
    for (
      let i = 0;
      i < 2000 && !points().some((id) => fs.existsSync(at(`endless/points/${id}/train/log.jsonl`)));
      i++
    ) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    process.kill(-child.pid!, 'SIGINT');
    expect(await ended).toBe(1);
    expect(stderr).toMatch(/calm: stopped with 1 of 2 points done; run the same command to go on\n$/);
    expect(points().filter((id) => fs.existsSync(at(`endless/points/${id}/row.json`)))).toHaveLength(1);
  });
});
