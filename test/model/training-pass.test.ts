import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf, type Tensor2D } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, leaves, map } from '../../src/engine/tree';
import { createAdapter, readAdapter, trainingPass, unembed, type Adapter } from '../../src/model';
import type { Dropout } from '../../src/model/lora';
import { TARGETS } from '../../src/model/targets';
import { pack } from '../../src/model/packed';
import { openSafetensors } from '../../src/model/safetensors';
import { HAS_SHARED, maxAbsDifference, SHARED, sharedJson } from '../shared';
import { loadWeights } from './load-weights';
import { byPeftName, float64 } from './peft-names';
import { tinyModel } from './tiny-model';

interface Case {
  id: string;
  dir: string;
  batches: { input_ids: number[][]; attention_mask: number[][]; labels: number[][] }[];
}

beforeAll(startEngine);

describe.skipIf(!HAS_SHARED)('LoRA against the reference in float64 (needs ../shared)', () => {
  it.each(['llama3_untied', 'llama3_tied'])('%s: logits, and the gradient of every A and B', (id) => {
    const { cases } = sharedJson<{ cases: Case[] }>('oracle', 'tiny', 'public.json');
    const { dir, batches } = cases.find((c) => c.id === id)!;
    const folder = path.join(SHARED, 'oracle', 'tiny', dir);
    const model = loadWeights(folder);
    const adapter = readAdapter(path.join(folder, 'adapter'), model.config);
    const reference = openSafetensors(path.join(folder, 'ref.safetensors'));
    const { vocabSize } = model.config;
    batches.forEach(({ input_ids, attention_mask, labels }, b) => {
      const lengths = attention_mask.map((mask) => mask.filter((m) => m === 1).length);
      const packed = pack(input_ids.map((ids, row) => ({ ids: ids.slice(0, lengths[row]) })));
      const pass = trainingPass(
        model,
        adapter,
        packed,
        Int32Array.from({ length: packed.n }, (_, i) => i),
      );
      const logits = unembed(model.parameters, pass.hidden);
      const right = float64(reference.read(`b${b}.lora.logits_f64`));
      const width = input_ids[0]!.length;
      const real = lengths.flatMap((length, row) => Array.from({ length }, (_, i) => row * width + i));
      const expected = real.flatMap((at) => [...right.subarray(at * vocabSize, (at + 1) * vocabSize)]);
      expect(maxAbsDifference(logits.dataSync(), expected)).toBeLessThan(5e-5);

      // The loss is the mean cross-entropy where a label is set; the logits before a token predict it.
      const targets = real.map((at) => (at % width === width - 1 ? -100 : labels.flat()[at + 1]!));
      const scored = targets.map((label, t) => (label !== -100 && real[t + 1] === real[t]! + 1 ? label : -100));
      const count = scored.filter((label) => label !== -100).length;
      const probabilities = tf.softmax(logits).dataSync<'float32'>();
      const byLogits = Float32Array.from(probabilities, (p, i) => {
        const label = scored[Math.floor(i / vocabSize)]!;
        return label === -100 ? 0 : (p - (label === i % vocabSize ? 1 : 0)) / count;
      });
      const table = (model.parameters.unembedding ?? model.parameters.embedding) as Tensor2D;
      const gradients = pass.backward(tf.matMul(tf.tensor2d(byLogits, [packed.n, vocabSize]), table));
      const found = byPeftName(gradients, model.config);
      expect(found.size).toBe(2 * 7 * 2);
      for (const [name, values] of found) {
        const exact = float64(reference.read(`b${b}.lora.grad_f64.${name}`));
        exact.forEach((value, i) => {
          expect(Math.abs(values[i]! - value), `${name} ${i}`).toBeLessThan(1e-5 + 1e-4 * Math.abs(value));
        });
      }
    });
    reference.close();
  });
});

/** An adapter whose b is not zero. */
function adapterOf(model: ReturnType<typeof tinyModel>, targets = [...TARGETS] as Adapter['config']['targets']) {
  const lora = { rank: 3, alpha: 6, dropout: 0.3, rankStabilised: false, targets };
  const adapter = createAdapter(model.config, lora, Random.seed(5));
  const random = Random.seed(6);
  return {
    config: lora,
    blocks: map(adapter.blocks, (leaf) =>
      tf.tensor(
        Float32Array.from({ length: leaf.size }, () => 0.15 * random.normal()),
        leaf.shape,
      ),
    ),
  };
}

const texts = [{ ids: [1, 2, 3, 4, 5] }, { ids: [6, 7] }, { ids: [8, 9, 10] }];
const at = Int32Array.of(1, 4, 6, 9);

/** A smooth function of the hidden states at `at`, in float64, and its gradient by them. */
function lossOf(hidden: Tensor2D): { loss: number; gradient: Tensor2D } {
  const values = Float64Array.from(hidden.dataSync<'float32'>());
  const weights = values.map((_, i) => Math.sin(i + 1));
  const loss = values.reduce((sum, h, i) => sum + weights[i]! * h + 0.1 * h * h, 0);
  const gradient = Float32Array.from(values, (h, i) => weights[i]! + 0.2 * h);
  return { loss, gradient: tf.tensor2d(gradient, hidden.shape) };
}

function evaluate(model: ReturnType<typeof tinyModel>, adapter: Adapter, dropout?: Dropout) {
  const pass = trainingPass(model, adapter, pack(texts), at, { dropout });
  const { loss, gradient } = lossOf(pass.hidden);
  return { loss, gradients: pass.backward(gradient) };
}

describe('the backward pass', () => {
  // Central differences in float32: one number of every matrix, with dropout (whose masks follow from the seed) and
  // without, with all targets and with some.
  it.each([
    { dropout: undefined, targets: TARGETS },
    { dropout: { rate: 0.3, seed: 4 }, targets: TARGETS },
    { dropout: undefined, targets: ['k', 'up'] as const },
    { dropout: { rate: 0.3, seed: 4 }, targets: ['v', 'down'] as const },
  ])('agrees with finite differences: $dropout, $targets', ({ dropout, targets }) => {
    const model = tinyModel();
    const adapter = adapterOf(model, targets);
    const { gradients } = evaluate(model, adapter, dropout);
    const found = new Map(leaves(gradients));
    expect([...found.keys()].sort()).toEqual(
      leaves(adapter.blocks)
        .map(([place]) => place)
        .sort(),
    );
    for (const [place] of leaves(adapter.blocks)) {
      // Along the gradient itself, which tests all its numbers at once.
      const slope = found.get(place)!;
      const length = Math.sqrt(slope.square().sum().dataSync()[0]!);
      if (length === 0) continue;
      const lossAt = (step: number) => {
        const moved = map(adapter.blocks, (t, p) => (p === place ? t.add(slope.mul(step / length)) : t));
        return evaluate(model, { ...adapter, blocks: moved }, dropout).loss;
      };
      const central = (step: number) => (lossAt(step) - lossAt(-step)) / (2 * step);
      const measured = (4 * central(2e-3) - central(4e-3)) / 3; // Richardson: the error's h^2 term cancels
      expect(Math.abs(measured - length) / Math.max(0.1, length), place).toBeLessThan(5e-3);
    }
  });

  it('gives the same gradients whatever is packed beside a text, and frees all it keeps', async () => {
    const model = tinyModel();
    const adapter = adapterOf(model);
    const whole = evaluate(model, adapter);
    expect(Number.isFinite(whole.loss)).toBe(true);
    expect(
      await tensorsKept(() => {
        const pass = trainingPass(model, adapter, pack(texts), at, { dropout: { rate: 0.3, seed: 1 } });
        dispose(pass.backward(tf.tidy(() => tf.keep(tf.onesLike(pass.hidden)))));
      }),
    ).toBe(1); // the gradient handed in
    expect(
      await tensorsKept(() => trainingPass(model, adapter, pack(texts), at, { forwardOnly: true }).dispose()),
    ).toBe(0);
    expect(await tensorsKept(() => trainingPass(model, adapter, pack(texts), at).dispose())).toBe(0);
  });

  it('without an adapted block gives no gradients', () => {
    const model = tinyModel();
    const adapter = { config: adapterOf(model).config, blocks: model.parameters.blocks.map(() => ({})) };
    expect(leaves(evaluate(model, adapter).gradients)).toEqual([]);
  });
});
