import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { openSafetensors, writeSafetensors } from '../../src/model/safetensors';
import { calm, calmJson, workplace } from './calm';

const { model, at, write } = workplace();
const main = path.join(__dirname, '../../src/setup/calm.cjs');
const question = (i: number) => ({
  id: `q${i}`,
  question: `What is ${i}?`,
  choices: ['this', 'that', 'it'],
  answer: i % 3,
});
const rows = (from: number, count: number) => Array.from({ length: count }, (_, i) => question(from + i));
const train = write('train.jsonl', rows(0, 24));
const valid = write('valid.jsonl', rows(100, 8));
const test = write('test.jsonl', rows(200, 6));

const small = ['epochs=3', 'outerPerEpoch=2', 'innerSteps=2', 'batch=4', 'rank=3', 'dropout=0.2', 'upperRate=0.1'];
const command = (out: string, ...more: string[]) => [
  ...['train', 'calm', '--model', model, '--train', train, '--valid', valid, '--out', out],
  ...small.flatMap((text) => ['--set', text]),
  ...more,
];

const trained = (out: string) =>
  ['adapter_model.safetensors', 'calibration_head.safetensors'].map((name) => fs.readFileSync(path.join(out, name)));

describe('calm train calm', () => {
  it('writes the adapter, the head and the log, and the numbers of each step', async () => {
    const { last, left_out } = await calmJson<{ last: object; left_out: object[] }>(...command(at('run')));
    expect(last).toMatchObject({ step: 6, validation_accuracy: expect.any(Number) as number });
    expect(left_out).toEqual([
      { file: train, unusable: [], tooLong: [] },
      { file: valid, unusable: [], tooLong: [] },
    ]);
    expect(fs.readdirSync(at('run')).sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
      'calibration_head.safetensors',
      'checkpoints',
      'log.jsonl',
      'run.json',
    ]);
    const log = fs
      .readFileSync(path.join(at('run'), 'log.jsonl'), 'utf8')
      .trim()
      .split('\n');
    for (const key of ['loss', 'entropy', 'lambda', 'residual', 'd_displacement', 'tokens_per_second', 'memory_mib']) {
      expect(JSON.parse(log[0]!)).toHaveProperty(key, expect.any(Number));
    }
    expect((JSON.parse(log[5]!) as { d_displacement: number }).d_displacement).toBeGreaterThan(0.05);
  });

  it('killed anywhere and resumed ends as a run that was not, bit for bit', async () => {
    for (const lines of [1, 3]) {
      const out = at(`killed-${lines}`);
      const child = spawn(process.execPath, [main, '-q', ...command(out, '--checkpoint-seconds', '0')], {
        stdio: 'ignore',
        detached: true,
      });
      const ended = new Promise((resolve) => child.on('close', (code, by) => resolve(by ?? code)));
      const log = path.join(out, 'log.jsonl');
      const watch = setInterval(() => {
        if (!fs.existsSync(log) || fs.readFileSync(log, 'utf8').split('\n').length <= lines) return;
        clearInterval(watch);
        process.kill(-child.pid!, 'SIGKILL');
      }, 5);
      expect(await ended).toBe('SIGKILL');
      await calmJson(...command(out, '--resume'));
      expect(trained(out)).toEqual(trained(at('run')));
    }
  }, 60_000);

  it('is evaluated with the head, and without', async () => {
    interface Evaluated {
      results: { adapter_hash?: string; head?: boolean; metrics: { nll: { value: number } } }[];
    }
    const arguments_ = [
      'eval',
      '--model',
      model,
      '--tasks',
      test,
      '--resamples',
      '0',
      '--no-cache',
      '--out',
      at('eval'),
    ];
    const evaluate = (...more: string[]) => calmJson<Evaluated>(...arguments_, ...more);
    const [plain] = (await evaluate()).results;
    const [headed] = (await evaluate('--adapter', at('run'))).results;
    const [bare] = (await evaluate('--adapter', at('run'), '--no-head')).results;
    expect(plain).not.toHaveProperty('adapter_hash');
    expect(headed).toMatchObject({ adapter_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string, head: true });
    expect(bare!.head).toBe(false);
    expect(bare!.adapter_hash).not.toBe(headed!.adapter_hash);
    const losses = [plain, headed, bare].map((result) => result!.metrics.nll.value);
    expect(new Set(losses).size).toBe(3);
  });

  it('learns from instructions, by cloze, with T = 0, a rate of 0, or one validation row', async () => {
    const instructions = write(
      'instructions.jsonl',
      Array.from({ length: 8 }, (_, i) => ({
        instruction: `Say ${i}`,
        input: i % 2 ? 'now' : '',
        output: `It is ${i}.`,
      })),
    );
    const one = write('one.jsonl', rows(300, 1));
    const run = (name: string, trainFile: string, validFile: string, ...sets: string[]) =>
      calmJson<{ last: Record<string, number> }>(
        ...['train', 'calm', '--model', model, '--train', trainFile, '--valid', validFile, '--out', at(name)],
        ...[...small, ...sets].flatMap((text) => ['--set', text]),
      );
    expect((await run('ood', instructions, instructions)).last).toHaveProperty('validation_nll');
    expect((await run('cloze', train, valid, 'format=cloze')).last).toHaveProperty('validation_nll');
    expect((await run('choices', train, valid, 'space=choices')).last).toHaveProperty('validation_conf_ece');
    expect((await run('scalar', train, one, 'head=scalar')).last).toHaveProperty('validation_conf_ece');
    expect((await run('t0', train, valid, 'innerSteps=0')).last).toMatchObject({ residual: 0 });
    const still = await run('still', train, valid, 'upperRate=0', 'lowerRate=0');
    expect(still.last).toMatchObject({ d_displacement: 0, l_displacement: 0 });
    const adapter = openSafetensors(path.join(at('still'), 'adapter_model.safetensors'));
    for (const name of adapter.names()) {
      if (name.includes('lora_B')) expect(adapter.float32(name).every((x) => x === 0)).toBe(true);
    }
    adapter.close();
  });

  it('counts and names rows it leaves out', async () => {
    const mixed = write('mixed.jsonl', [
      ...rows(0, 3),
      { question: 'no choices' },
      { ...question(5), question: 'long '.repeat(300) },
    ]);
    const words = command(at('mixed')).map((word) => (word === train ? mixed : word));
    const { left_out } = await calmJson<{ left_out: { unusable: object[]; tooLong: string[] }[] }>(...words);
    expect(left_out[0]).toMatchObject({ unusable: [{ line: 4 }], tooLong: ['q5'] });
  });

  it.each([
    [['train', 'clam'], /unknown method "clam"; did you mean calm/],
    [[...command(at('x')), '--set', 'inerSteps=3'], /unknown option of calm "inerSteps"; did you mean innerSteps/],
    [[...command(at('x')), '--set', 'gamma=-1'], /option gamma: /],
    [[...command(at('x')), '--set', 'gamma'], /"gamma" is not an option; write --set name=value/],
    [[...command(at('x')), '--resume'], /holds no run to resume/],
    [command(at('run')), /holds a run already; continue it with --resume/],
    [[...command(at('run')), '--set', 'gamma=0.25', '--resume'], /is a run with gamma 0.5, not 0.25/],
  ])('refuses %j', async (args, message) => {
    const words = args[1] === 'clam' ? [...args, ...command(at('x')).slice(2)] : args;
    const { code, stderr } = await calm(...words);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });

  it('refuses an adapter or a head of another model', async () => {
    const wrong = at('wrong');
    fs.cpSync(at('run'), wrong, { recursive: true });
    const numbers = { shape: [5], data: new Float32Array(5).fill(1) };
    writeSafetensors(path.join(wrong, 'calibration_head.safetensors'), { d: numbers, l: numbers });
    const evaluate = ['eval', '--model', model, '--tasks', test, '--no-cache', '--out', at('eval'), '--adapter'];
    expect((await calm(...evaluate, wrong)).stderr).toMatch(/d is \[5\], the model's vocabulary is 284/);
    expect((await calm(...evaluate, at('nowhere'))).stderr).toMatch(/nowhere: does not exist/);
    fs.writeFileSync(path.join(wrong, 'adapter_model.safetensors'), '');
    expect((await calm(...evaluate, wrong, '--no-head')).stderr).toMatch(/adapter_model.safetensors is truncated/);
    const { code, stderr } = await calm('eval', '--model', model, '--tasks', test, '--out', at('eval'), '--no-head');
    expect([code, stderr]).toEqual([2, expect.stringMatching(/--no-head needs an --adapter/)]);
  });
});
