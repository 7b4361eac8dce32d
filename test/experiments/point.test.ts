import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readResults } from '../../src/evaluate';
import { runPoint } from '../../src/experiments/point';
import { pointsOf } from '../../src/experiments/points';
import type { Point, PointRow } from '../../src/experiments/types';
import { SMALL, tinyPlan } from './tiny-plan';
import { until } from './stub';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-point-'));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
const at = (name: string) => path.join(folder, name);
const cache = at('cache');
/** Without what depends on the machine and the moment. */
const result = ({ cost: _cost, ...rest }: PointRow) => rest;

let points: Point[];
beforeAll(async () => {
  const methods = ['baseline', 'ts', { method: 'calm', options: SMALL }, { method: 'calm-scalar', options: SMALL }];
  points = await pointsOf(tinyPlan(folder, { methods }));
});

describe('a point', () => {
  it('of the base model is asked, and its answers are kept for others', async () => {
    const row = await runPoint(points[0]!, at('baseline'), { cache });
    expect(row).toMatchObject({ method: 'baseline', setting: 'id', seed: 0, model: 'tiny' });
    expect(row.validation).toMatchObject({ n: 12, task: 'valid' });
    expect(row.test.metrics['conf_ece']).toMatchObject({ value: expect.any(Number) as number, interval: [expect.any(Number), expect.any(Number)] }); // prettier-ignore
    expect(row.cost).toMatchObject({ tokens_trained: 0, train_seconds: 0 });
    expect(row.cost.peak_memory_mib).toBeGreaterThan(50);
    expect(readResults(at('baseline/test'))[0]).toMatchObject({ metrics: row.test.metrics, bins: row.test.bins });
    const answers = fs.readdirSync(cache, { recursive: true, encoding: 'utf8' });
    const kept = () => answers.filter((name) => name.endsWith('.jsonl')).length;
    const ts = await runPoint(points[1]!, at('ts'), { cache });
    expect(kept()).toBe(1);
    expect(ts.test.metrics['accuracy']!.value).toBe(row.test.metrics['accuracy']!.value);
    expect(ts.validation.metrics['nll']!.value).toBeLessThan(row.validation.metrics['nll']!.value!);
    expect(ts.temperature!.applied).toBeGreaterThan(1);
  });

  it('of a training method measures what it costs, and is repeatable', async () => {
    const row = await runPoint(points[2]!, at('calm'), { cache });
    expect(row.adapter_hash).toMatch(/^[0-9a-f]{64}$/);
    expect(row.cost.tokens_trained).toBeGreaterThan(1000);
    expect(row.cost.train_seconds).toBeGreaterThan(0);
    expect(row.cost.wall_seconds).toBeGreaterThan(row.cost.train_seconds);
    expect(fs.readdirSync(at('calm')).sort()).toEqual(['test', 'train', 'validation']);
    expect(fs.readdirSync(at('calm/train'))).not.toContain('checkpoints');
    expect(result(await runPoint(points[2]!, at('calm-again'), { cache: at('cache2') }))).toEqual(result(row));
    const scalar = await runPoint(points[3]!, at('scalar'), { cache });
    expect(scalar).toMatchObject({ label: 'calm-scalar', method: 'calm', options: { head: 'scalar' } });
    expect(scalar.adapter_hash).not.toBe(row.adapter_hash);
  });

  it('that was killed while it trained goes on, and ends as one that was not', async () => {
    const [point] = await pointsOf(
      tinyPlan(folder, { methods: [{ method: 'calm', options: { ...SMALL, epochs: 60 } }] }),
    ).then((all) => all.filter(({ method }) => method === 'calm'));
    const whole = await runPoint(point!, at('whole'), { cache });
    const killed = at('killed');
    fs.mkdirSync(killed);
    const script = `require(${JSON.stringify(path.join(__dirname, '../../.build/experiments/point.js'))})
      .runPoint(${JSON.stringify(point)}, ${JSON.stringify(killed)}, { cache: ${JSON.stringify(cache)}, checkpointSeconds: 0 })`;
    const child = spawn(process.execPath, ['-e', script], { stdio: 'ignore' });
    const log = path.join(killed, 'train', 'log.jsonl');
    await until('a few steps', () => fs.existsSync(log) && fs.readFileSync(log, 'utf8').split('\n').length > 4);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.on('exit', resolve));
    expect(fs.existsSync(path.join(killed, 'validation'))).toBe(false);
    const row = await runPoint(point!, killed, { cache });
    expect(result(row)).toEqual(result(whole));
    expect(row.cost.tokens_trained).toBe(whole.cost.tokens_trained);
  });

  it('of older code is trained anew', async () => {
    const file = at('calm/train/run.json');
    const run = JSON.parse(fs.readFileSync(file, 'utf8')) as { identity: { code_version: string } };
    run.identity.code_version = '0.0.1';
    fs.writeFileSync(file, JSON.stringify(run));
    fs.writeFileSync(at('calm/train/log.jsonl'), '');
    const row = await runPoint(points[2]!, at('calm'), { cache });
    expect(row.cost.tokens_trained).toBeGreaterThan(1000);
  });

  it('fits a temperature on the tokens of instructions, or on questions made of them', async () => {
    const file = at('instructions.jsonl');
    const rows = Array.from({ length: 8 }, (_, i) => ({ instruction: `say ${i}`, output: `it is ${i}` }));
    fs.writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const settings = { ood: { train: file, trainValidation: file, validation: 'valid.jsonl', test: 'test.jsonl' } };
    const methods = (['tokens', 'synthetic'] as const).map((fit) => ({ method: 'ts', name: fit, options: { fit } }));
    const [, tokens, synthetic] = await pointsOf(tinyPlan(folder, { settings, methods }));
    const byToken = await runPoint(tokens!, at('tokens'), { cache });
    const byQuestion = await runPoint(synthetic!, at('synthetic'), { cache });
    expect(byToken.temperature!.applied).not.toBeCloseTo(byQuestion.temperature!.applied, 3);
    expect(byToken.test.metrics['accuracy']).toEqual(byQuestion.test.metrics['accuracy']);
    const questions = { s: { train: 'train.jsonl', validation: 'valid.jsonl', test: 'test.jsonl' } };
    const [, wrong] = await pointsOf(tinyPlan(folder, { settings: questions, methods: methods.slice(0, 1) }));
    await expect(runPoint(wrong!, at('wrong'), { cache })).rejects.toThrow('holds questions, and ts is to be fitted');
    const none = { s: { validation: 'valid.jsonl', test: 'test.jsonl' } };
    await expect(pointsOf(tinyPlan(folder, { settings: none, methods }))).rejects.toThrow('has nothing to train on');
  });

  it('trains on a task as well as on a file', async () => {
    const settings = { s: { train: { task: 'starter', split: 'train', limit: 16 }, validation: { task: 'starter', split: 'validation', limit: 8 }, test: { task: 'starter', limit: 8 } } }; // prettier-ignore
    const all = await pointsOf(tinyPlan(folder, { settings, methods: [{ method: 'calm', options: SMALL }] }));
    const row = await runPoint(all.at(-1)!, at('starter'), { cache });
    expect(row.test).toMatchObject({ n: 8, task: 'starter', split: 'test' });
    expect(fs.readFileSync(at('starter/train.jsonl'), 'utf8').trim().split('\n')).toHaveLength(16);
  });

  it('says when its model is not on this machine', async () => {
    const gone = { ...points[0]!, model: path.join(folder, 'gone') };
    await expect(runPoint(gone, at('gone'), { cache })).rejects.toThrow(/cannot read .*gone: does not exist/);
  });
});
