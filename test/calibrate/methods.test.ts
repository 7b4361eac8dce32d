import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { train, type TrainOptions } from '../../src/calibrate';
import { baseSureness, binAccuracies } from '../../src/calibrate/context';
import { dpoLoss } from '../../src/calibrate/dpo';
import { METHODS, parseOptions, type MethodName } from '../../src/calibrate/options';
import { tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, map, zip } from '../../src/engine/tree';
import { logSoftmax, softmax } from '../../src/metrics';
import { createAdapter, lastLogits, PAPER_LORA, scoreContinuations, type Adapter } from '../../src/model';
import { applyTuning } from '../../src/calibrate/tuned';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import { readTraining, toExamples } from '../../src/train/examples';
import type { LogEntry } from '../../src/train/loop';
import { readPreferences } from '../../src/train/preferences';
import { writeTinyFolder } from '../evaluate/tiny-folder';
import { temporaryFolder } from '../model/make-files';
import { maxAbsDifference } from '../shared';

const folder = temporaryFolder();
let model: LanguageModel;
beforeAll(async () => {
  setQuiet(true);
  model = await loadModel(writeTinyFolder(path.join(folder, 'tiny')));
});
afterAll(() => model.dispose());

function write(name: string, rows: object[]): string {
  const file = path.join(folder, name);
  fs.writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return file;
}
const question = (i: number) => ({ id: `q${i}`, question: `What is ${i}?`, choices: ['a', 'b', 'c'].slice(0, 2 + (i % 2)), answer: i % 2 }); // prettier-ignore
const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
const questions = write('train.jsonl', range(0, 12).map(question));
const held = write('validation.jsonl', range(100, 6).map(question));
const instructions = write('instructions.jsonl', range(0, 6).map((i) => ({ instruction: `say ${i}`, output: `${i}${i}` }))); // prettier-ignore
const pairs = write('pairs.jsonl', range(0, 6).map((i) => ({ id: `p${i}`, prompt: `is it ${i}?`, chosen: ' yes', rejected: ' nope' }))); // prettier-ignore

const small = { rank: 2, epochs: 2, batch: 4, dropout: 0.1, warmupEpochs: 0 };
const RATES: Record<MethodName, object> = {
  calm: { lowerRate: 1e-2, upperRate: 1e-2, innerSteps: 2, outerPerEpoch: 2 },
  sft: { rate: 1e-2 },
  ls: { rate: 1e-2 },
  cft: { rate: 1e-2, calibrationScale: 1 },
  reg: { rate: 1e-2, penalty: 0.5 },
  iterate: { lowerRate: 1e-2, upperRate: 1e-2, lowerSteps: 3 },
  dpo: { rate: 1e-2 },
};
const optionsOf = (method: MethodName, more: object = {}) =>
  ({ method, train: method === 'dpo' ? pairs : questions, validation: method === 'dpo' ? pairs : held, ...small, ...RATES[method], ...more }) as TrainOptions; // prettier-ignore

const lossesOf = (log: LogEntry[]) => log.flatMap(({ loss }) => (typeof loss === 'number' ? [loss] : []));
const logits = (of: LanguageModel) => lastLogits(of, [of.tokenizer.encode('What is 3?\nA. a\nB. b\nAnswer:')])[0]!;

describe.each(Object.keys(METHODS) as MethodName[])('%s', (method) => {
  it('learns: its loss falls, and the model is another', async () => {
    const trained = await train(model, optionsOf(method, { epochs: 6, dropout: 0 }));
    const losses = lossesOf(trained.log);
    expect(losses.at(-1)!).toBeLessThan(losses[0]!);
    expect(maxAbsDifference(logits(trained), logits(model))).toBeGreaterThan(1e-3);
    expect(trained.head !== undefined).toBe(method === 'calm' || method === 'iterate');
    trained.dispose();
  });

  it('resumed from a checkpoint ends as a run that was not interrupted, bit for bit', async () => {
    const out = path.join(folder, `run-${method}`);
    const whole = await train(model, optionsOf(method, { out, checkpointSeconds: 0 }));
    const checkpoints = fs.readdirSync(path.join(out, 'checkpoints')).sort();
    expect(checkpoints).toHaveLength(2);
    fs.rmSync(path.join(out, 'checkpoints', checkpoints[1]!), { recursive: true });
    const resumed = await train(model, optionsOf(method, { out, resume: true }));
    expect(resumed.tuning.adapterHash).toBe(whole.tuning.adapterHash);
    const numbers = (log: LogEntry[]) => log.map(({ step, loss, rates }) => ({ step, loss, rates }));
    expect(numbers(resumed.log)).toEqual(numbers(whole.log));
    dispose([whole.adapter.blocks, resumed.adapter.blocks]);
  });

  it('keeps no tensors', async () => {
    expect(await tensorsKept(async () => (await train(model, optionsOf(method))).dispose())).toBe(0);
  });

  it.skipIf(method === 'dpo')('learns from instructions', async () => {
    const files = { train: instructions, validation: instructions, epochs: 1 };
    const trained = await train(model, optionsOf(method, files));
    expect(trained.log.at(-1)).toMatchObject({ validation_nll: expect.any(Number) as number });
    trained.dispose();
  });
});

describe('the options of methods', () => {
  it('are the paper’s by default', () => {
    const common = { rank: 64, alpha: 32, dropout: 0.01, batch: 16, epochs: 5, weightDecay: 0.02, optimiser: 'adamw' };
    expect(parseOptions('ls', {})).toMatchObject({ ...common, rate: 1e-4, warmupEpochs: 1, bins: 10 });
    expect(parseOptions('cft', {})).toMatchObject({ ...common, rate: 1e-4, calibrationWeight: 0.5, calibrationScale: 1e-3 }); // prettier-ignore
    expect(parseOptions('reg', {})).toMatchObject({ ...common, self: 'soft' });
    expect(parseOptions('iterate', {})).toMatchObject({ ...common, lowerSteps: 20, upperTask: 0.9, warmupEpochs: 2 });
    expect(parseOptions('calm', {})).toMatchObject({ ...common, innerSteps: 20, gamma: 0.5, warmupEpochs: 2 });
  });

  it('of one method are none of another’s', () => {
    expect(() => parseOptions('sft', { innerSteps: 3 })).toThrow('unknown option of sft "innerSteps"');
    expect(() => parseOptions('cft', { calibrationWeight: 2 })).toThrow('option calibrationWeight');
    expect(() => parseOptions('clam', {})).toThrow('unknown method "clam"');
  });
});

describe('what methods know of the base model', () => {
  it('is how sure it is of each training question among its options, and how often rightly', async () => {
    const data = toExamples(await readTraining(questions), model.tokenizer, { format: 'letter', maxPositions: 512 });
    const lora = { ...PAPER_LORA, rank: 2 };
    const adapter = createAdapter(model.config, lora, Random.seed(1)).blocks;
    const context = { model, train: data.examples, validation: [], letters: data.letters, lora, adapter, options: parseOptions('ls', {}), identity: {} }; // prettier-ignore
    const found = baseSureness(context);
    data.examples.forEach(({ ids, labels, options }, i) => {
      const mine = [...data.letters!.subarray(0, options)];
      const [own] = lastLogits(model, [ids], Int32Array.from(mine)) as [Float32Array];
      const p = softmax(Array.from(own));
      expect(found[i]!.confidence[0]).toBeCloseTo(Math.max(...p), 5);
      expect(found[i]!.correct[0]).toBe(mine[p.indexOf(Math.max(...p))] === labels[0]);
    });
    dispose(adapter);
  });

  it('is put into bins', () => {
    const sureness = [
      { confidence: [0.05, 0.5, 0.99], correct: [true, false, true] },
      { confidence: [0.51, 1.0000001], correct: [true, false] },
    ];
    expect(binAccuracies(sureness, 2)).toEqual([1, 0.5]);
    expect(binAccuracies(sureness, 4)).toEqual([1, NaN, 0.5, 0.5]);
  });
});

describe('DPO', () => {
  const lora = { ...PAPER_LORA, rank: 2, dropout: 0 };
  /** An adapter that does something. */
  const adapterOf = (seed: number): Adapter => {
    const random = Random.seed(seed);
    const blocks = map(createAdapter(model.config, lora, random).blocks, (leaf) =>
      tf.tensor(Float32Array.from({ length: leaf.size }, () => 0.3 * random.normal()), leaf.shape),
    ); // prettier-ignore
    return { config: lora, blocks };
  };
  const read = async () => (await readPreferences(pairs, model.tokenizer, { maxPositions: 512 })).pairs;

  it('L-7: is -log sigmoid of beta times the difference of log-ratios, sums over tokens', async () => {
    const [adapter, beta] = [adapterOf(1), 0.1];
    const all = await read();
    const tuned = applyTuning(model, adapter);
    const logp = (by: LanguageModel, context: readonly number[], continuation: readonly number[]) =>
      scoreContinuations(by, [{ context, continuation }])[0]!.tokenLogProbs.reduce((a, b) => a + b, 0);
    const gaps = all.map(({ prompt, chosen, rejected }) => {
      const reward = (answer: readonly number[]) => logp(tuned, prompt, answer) - logp(model, prompt, answer);
      return beta * (reward(chosen) - reward(rejected));
    });
    const found = dpoLoss(model, adapter, all, { beta, wanted: false });
    const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
    // -log sigmoid(0.2) = 0.598139, as the case has it.
    expect(-logSoftmax([0.2, 0])[0]!).toBeCloseTo(0.598139, 6);
    expect(found.loss).toBeCloseTo(mean(gaps.map((gap) => -logSoftmax([gap, 0])[0]!)), 4);
    expect(found.margin).toBeCloseTo(mean(gaps), 4);
    expect(found.accuracy).toBeCloseTo(mean(gaps.map((gap) => (gap > 0 ? 1 : 0))), 12);
    tuned.dispose();
  });

  it('is ln 2 where the adapter does nothing', async () => {
    const adapter = { config: lora, blocks: createAdapter(model.config, lora, Random.seed(2)).blocks };
    const { loss, margin } = dpoLoss(model, adapter, await read(), { beta: 0.5, wanted: false });
    expect(loss).toBeCloseTo(Math.LN2, 5);
    expect(margin).toBeCloseTo(0, 4);
    dispose(adapter.blocks);
  });

  it('has the gradient of finite differences along a random direction, in however many batches', async () => {
    const all = await read();
    const [adapter, way] = [adapterOf(3), adapterOf(4)];
    const beta = 0.3;
    const lossAt = (step: number) => {
      const blocks = zip((a, b) => tf.tidy(() => tf.add(a, tf.mul(b, step))), adapter.blocks, way.blocks);
      const { loss } = dpoLoss(model, { config: lora, blocks: blocks as Adapter['blocks'] }, all, {
        beta,
        wanted: false,
      });
      dispose(blocks);
      return loss;
    };
    const h = 2e-3;
    const slope = (lossAt(h) - lossAt(-h)) / (2 * h);
    for (const batchTokens of [4096, 1]) {
      const { theta } = dpoLoss(model, adapter, all, { beta, batchTokens });
      let along = 0;
      dispose(zip((g, b) => ((along += tf.sum(tf.mul(g, b)).dataSync<'float32'>()[0]!), g), theta, way.blocks)); // prettier-ignore
      expect(Math.abs(along - slope)).toBeLessThan(0.02 * Math.max(1, Math.abs(slope)));
    }
    dispose([adapter.blocks, way.blocks]);
  });

  it('leaves out rows that are no preference, or too long', async () => {
    const file = write('some.jsonl', [
      { prompt: 'a', chosen: 'b', rejected: 'b' },
      { prompt: 'a', chosen: 'b' },
      { id: 'long', prompt: 'x'.repeat(600), chosen: 'b', rejected: 'c' },
      { id: 'good', prompt: 'a', chosen: 'b', rejected: 'c' },
    ]);
    const found = await readPreferences(file, model.tokenizer, { maxPositions: 512 });
    expect(found.pairs.map(({ id }) => id)).toEqual(['good']);
    expect(found.skipped.map(({ line }) => line)).toEqual([1, 2]);
    expect(found.tooLong).toEqual(['long']);
    await expect(readPreferences(questions, model.tokenizer, { maxPositions: 512 })).rejects.toThrow(
      'no row can be used; line 1: field "prompt"',
    );
  });
});
