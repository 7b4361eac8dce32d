import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, map } from '../../src/engine/tree';
import { generate, type GenerateOptions } from '../../src/model/generate';
import { lastLogits, type Transformer } from '../../src/model';
import { softmax } from '../../src/metrics/softmax';
import { tinyModel } from './tiny-model';

let model: Transformer;
beforeAll(async () => {
  await startEngine();
  model = tinyModel();
});
afterAll(() => dispose(model.parameters as never));

const prompts = [[1, 2, 3, 4, 5], [6], [7, 8, 9], [10, 11]];
const streams = (seed: number, n: number) =>
  Array.from({ length: n }, (_, i) => Random.seed(seed).stream(`prompt ${i}`));

/** The most likely token again and again, everything computed anew at each step. */
function greedily(prompt: readonly number[], steps: number): number[] {
  const text = [...prompt];
  for (let i = 0; i < steps; i++) {
    const [logits] = lastLogits(model, [text]) as [Float32Array];
    text.push(logits.indexOf(Math.max(...logits)));
  }
  return text.slice(prompt.length);
}

describe('generate at temperature 0', () => {
  it('with its cache gives what computing everything anew gives, in a ragged batch too', () => {
    const right = prompts.map((prompt) => greedily(prompt, 12));
    expect(new Set(right.flat()).size).toBeGreaterThan(4); // a model that repeats one token would prove little
    expect(generate(model, prompts, { maxNewTokens: 12 })).toEqual(right);
    expect(prompts.map((prompt) => generate(model, [prompt], { maxNewTokens: 12 })[0])).toEqual(right);
  });

  it('stops each text before its stop token, and works no longer than the longest needs', () => {
    const right = prompts.map((prompt) => greedily(prompt, 12));
    const stop = new Set([right[0]![3]!, right[1]![5]!]);
    const cut = right.map((ids) => {
      const end = ids.findIndex((id) => stop.has(id));
      return end < 0 ? ids : ids.slice(0, end);
    });
    expect(cut[0]!.length).toBeLessThan(4);
    expect(generate(model, prompts, { maxNewTokens: 12, stop })).toEqual(cut);
    let steps = 0;
    generate(model, [prompts[0]!], { maxNewTokens: 12, stop }, (done) => (steps = done));
    expect(steps).toBe(cut[0]!.length + 1);
  });

  it('makes nothing of nothing', () => {
    expect(generate(model, prompts, { maxNewTokens: 0 })).toEqual([[], [], [], []]);
    expect(generate(model, [], { maxNewTokens: 3 })).toEqual([]);
  });
});

describe('sampling', () => {
  const samples = 4000;

  /** Chi-square of one sampled token against the exact distribution; tokens outside it must not be drawn. */
  function chiSquare(exact: readonly number[], options: Partial<GenerateOptions>): { value: number; freedom: number } {
    const [random] = streams(11, 1);
    const counts = exact.map(() => 0);
    // Many copies of one prompt at once: each has the same stream object, so draws follow one another.
    const batch = 500;
    for (let done = 0; done < samples; done += batch) {
      const same = Array.from({ length: batch }, () => [1, 2, 3]);
      const texts = generate(model, same, { maxNewTokens: 1, random: same.map(() => random!), ...options });
      for (const [id] of texts) counts[id!]!++;
    }
    // Tokens expected less than 5 times are taken together, as the test wants it.
    let value = 0;
    let [rareSeen, rareExpected, cells] = [0, 0, 0];
    exact.forEach((p, id) => {
      if (p === 0) expect([id, counts[id]]).toEqual([id, 0]);
      else if (p * samples < 5) [rareSeen, rareExpected] = [rareSeen + counts[id]!, rareExpected + p * samples];
      else [value, cells] = [value + (counts[id]! - p * samples) ** 2 / (p * samples), cells + 1];
    });
    if (rareExpected > 1) [value, cells] = [value + (rareSeen - rareExpected) ** 2 / rareExpected, cells + 1];
    return { value, freedom: cells - 1 };
  }

  /** Five standard deviations above the mean of chi-square: far beyond chance, far below a wrong distribution. */
  const limit = (freedom: number) => freedom + 5 * Math.sqrt(2 * freedom);
  const exactAt = (temperature: number) => softmax(lastLogits(model, [[1, 2, 3]])[0]!, temperature);

  it.each([0.5, 1, 2])('at temperature %d follows softmax(logits / T)', (temperature) => {
    const { value, freedom } = chiSquare(exactAt(temperature), { temperature });
    expect(freedom).toBeGreaterThan(2);
    expect(value).toBeLessThan(limit(freedom));
    // The same draws against another temperature: the test can tell.
    const other = chiSquare(exactAt(temperature * 1.3), { temperature });
    expect(other.value).toBeGreaterThan(limit(other.freedom));
  });

  it.each([0.3, 0.6, 0.9])('topP %d keeps the smallest set that reaches it, rescaled', (topP) => {
    const exact = exactAt(1.5);
    const ranked = exact.map((p, id) => ({ p, id })).sort((a, b) => b.p - a.p);
    let sum = 0;
    const kept = ranked.filter(({ p }) => sum < topP && (sum += p) > 0);
    const nucleus = exact.map((p, id) => (kept.some((k) => k.id === id) ? p / sum : 0));
    expect(kept.length).toBeLessThan(exact.length);
    const { value, freedom } = chiSquare(nucleus, { temperature: 1.5, topP });
    expect(value).toBeLessThanOrEqual(limit(freedom));
  });

  it('a topP below every probability, or a temperature near 0, takes the most likely token', () => {
    const right = prompts.map((prompt) => greedily(prompt, 6));
    for (const options of [{ temperature: 1, topP: 1e-9 }, { temperature: 1e-6 }]) {
      expect(generate(model, prompts, { maxNewTokens: 6, random: streams(1, 4), ...options })).toEqual(right);
    }
  });

  it("a prompt's text does not depend on its neighbours, and repeats with its stream", () => {
    const options = { maxNewTokens: 10, temperature: 1.2, stop: new Set([0, 1, 2]) };
    const together = generate(model, prompts, { ...options, random: streams(3, 4) });
    const alone = prompts.map(
      (prompt, i) => generate(model, [prompt], { ...options, random: [streams(3, 4)[i]!] })[0]!,
    );
    expect(together).toEqual(alone);
    expect(generate(model, prompts, { ...options, random: streams(4, 4) })).not.toEqual(together);
  });

  it('refuses to sample without streams, or from logits that are no numbers, and keeps no tensors then', async () => {
    const random = streams(1, 1);
    const parameters = map(model.parameters as never, (leaf) => tf.fill(leaf.shape, NaN)) as Transformer['parameters'];
    const broken = { ...model, parameters };
    const kept = await tensorsKept(() => {
      expect(() => generate(model, prompts, { maxNewTokens: 3, temperature: 1, random })).toThrow('one random stream');
      expect(() => generate(broken, [[1]], { maxNewTokens: 3, temperature: 1, random })).toThrow('are not numbers');
    });
    expect(kept).toBe(0);
    dispose(parameters);
  });
});
