import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { applyHead, type Head } from '../../src/calibrate/head';
import { objective } from '../../src/calibrate/objective';
import { applyTuning, loadTuning, readHead, writeHead, writeTuning } from '../../src/calibrate/tuned';
import { tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, leaves, map, zip } from '../../src/engine/tree';
import { crossEntropy, negativeEntropy } from '../../src/calibrate/criterion';
import { createAdapter, lastLogits, PAPER_LORA, type Adapter } from '../../src/model';
import { writeSafetensors } from '../../src/model/safetensors';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import { writeTinyFolder } from '../evaluate/tiny-folder';
import { temporaryFolder } from '../model/make-files';
import { maxAbsDifference } from '../shared';

const folder = temporaryFolder();
let model: LanguageModel;
beforeAll(async () => {
  setQuiet(true);
  model = await loadModel(writeTinyFolder(path.join(folder, 'tiny')));
});

function adapterOf(): Adapter {
  const random = Random.seed(2);
  const { config, blocks } = createAdapter(model.config, { ...PAPER_LORA, rank: 2, dropout: 0 }, Random.seed(1));
  const filled = map(blocks, (leaf) =>
    tf.tensor(
      Float32Array.from({ length: leaf.size }, () => 0.2 * random.normal()),
      leaf.shape,
    ),
  );
  dispose(blocks);
  return { config, blocks: filled };
}

function headOf(size = model.config.vocabSize): Head {
  const random = Random.seed(4);
  const numbers = (of: () => number) => tf.tensor1d(Float32Array.from({ length: size }, of));
  return { d: numbers(() => 0.5 + random.uniform()), l: numbers(() => random.normal()) };
}

const texts = [[1, 2, 3, 100], [5], [7, 8, 9]];
const logits = (of: LanguageModel, tokens?: Int32Array) => lastLogits(of, texts, tokens).flatMap((row) => [...row]);

describe('a tuned model', () => {
  it.each(['vector', 'scalar'])('has the logits of the adapted model through the head (%s)', (form) => {
    const head = headOf(form === 'scalar' ? 1 : model.config.vocabSize);
    const [bare, headed] = [applyTuning(model, adapterOf()), applyTuning(model, adapterOf(), head)];
    const z = tf.tensor2d(logits(bare), [texts.length, model.config.vocabSize]);
    expect(maxAbsDifference(logits(headed), applyHead(z, head).dataSync())).toBeLessThan(1e-5);
    const some = Int32Array.of(3, 280);
    const picked = logits(headed).filter((_, i) => some.includes(i % model.config.vocabSize));
    expect(maxAbsDifference(logits(headed, some), picked)).toBeLessThan(1e-6);
  });

  it('comes back from its folder, with the head and without', () => {
    const out = path.join(folder, 'tuning');
    const made = applyTuning(model, adapterOf(), headOf());
    writeTuning(out, made.adapter, made.head, model.config, 'tiny');
    const [read, bare] = [loadTuning(model, out), loadTuning(model, out, { head: false })];
    expect(logits(read)).toEqual(logits(made));
    expect(read.tuning).toEqual(made.tuning);
    expect(bare.tuning.head).toBe(false);
    writeTuning(out, made.adapter, undefined, model.config, 'tiny'); // the head of the earlier run goes
    expect(fs.existsSync(path.join(out, 'calibration_head.safetensors'))).toBe(false);
    expect(() => loadTuning(model, out, { head: true })).toThrow(/has no calibration_head.safetensors/);
  });

  it('frees what it made and leaves the model', async () => {
    const before = logits(model);
    expect(await tensorsKept(() => applyTuning(model, adapterOf(), headOf()).dispose())).toBe(0);
    expect(logits(model)).toEqual(before);
  });

  it.each([
    ['d that is 0', [1, 0], [0, 0], /entry 1 is d = 0/],
    ['l that is no number', [1, 1], [NaN, 0], /entry 0 is d = 1, l = NaN/],
    ['another length of l', [1, 1], [0], /d has 2 numbers, l has 1/],
  ])('refuses a head with %s', (_what, d, l, message) => {
    const file = path.join(folder, 'head.safetensors');
    const tensor = (values: number[]) => ({ shape: [values.length], data: Float32Array.from(values) });
    writeSafetensors(file, { d: tensor(d), l: tensor(l) });
    expect(() => readHead(file, l.length === 1 ? 2 : 2)).toThrow(message);
  });

  it('a head is written and read to the bit', () => {
    const [file, head] = [path.join(folder, 'head2.safetensors'), headOf()];
    writeHead(file, head);
    const read = readHead(file, model.config.vocabSize);
    expect([...read.d.dataSync(), ...read.l.dataSync()]).toEqual([...head.d.dataSync(), ...head.l.dataSync()]);
  });
});

describe('the objective', () => {
  const examples = [
    { ids: [1, 2, 3, 4, 5, 6], positions: [2, 3, 5], labels: [7, 8, 9] },
    { ids: [10, 11], positions: [1], labels: [12] },
    { ids: [13, 14, 15], positions: [0, 2], labels: [16, 17] },
  ];
  const both = { alpha: true, theta: true };

  it.each(['token', 'example'] as const)('is the same however its batch is cut up (mean over %ss)', (reduction) => {
    const state = { adapter: adapterOf(), head: headOf() };
    for (const kind of [crossEntropy, negativeEntropy]) {
      const whole = objective(kind, model, state, examples, both, { reduction });
      const cut = objective(kind, model, state, examples, both, { reduction, batchTokens: 1 });
      expect(cut.loss).toBeCloseTo(whole.loss, 5);
      zip(
        (a, b, place) => {
          expect(maxAbsDifference(a.dataSync(), b.dataSync()), place).toBeLessThan(1e-4);
          return a;
        },
        [whole.alpha, whole.theta],
        [cut.alpha, cut.theta],
      );
    }
  });

  it('by example differs from by token, for a text with more of them weighs no more', () => {
    const state = { adapter: adapterOf(), head: headOf() };
    const none = { alpha: false, theta: false };
    const of = (rows: typeof examples, reduction: 'token' | 'example') =>
      objective(crossEntropy, model, state, rows, none, { reduction }).loss;
    const each = examples.map((row) => of([row], 'token'));
    expect(of(examples, 'example')).toBeCloseTo((each[0]! + each[1]! + each[2]!) / 3, 5);
    expect(of(examples, 'token')).toBeCloseTo((3 * each[0]! + each[1]! + 2 * each[2]!) / 6, 5);
  });

  it('keeps its gradients and nothing else', async () => {
    const state = { adapter: adapterOf(), head: headOf() };
    const kept = await tensorsKept(() => {
      for (const kind of [crossEntropy, negativeEntropy]) {
        const found = objective(kind, model, state, examples, both, {
          dropout: { rate: 0.1, seed: 1 },
          batchTokens: 4,
        });
        dispose([found.alpha, found.theta]);
        dispose(objective(kind, model, state, examples, { alpha: true, theta: false }).alpha);
      }
    });
    expect(kept).toBe(0);
    expect(leaves([state.head, state.adapter.blocks]).every(([, leaf]) => !leaf.isDisposed)).toBe(true);
  });
});
