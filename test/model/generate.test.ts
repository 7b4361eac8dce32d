import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, map } from '../../src/engine/tree';
import { generate as continuations, type GenerateOptions } from '../../src/model/generate';
import { lastLogits, scoreContinuations, type Transformer } from '../../src/model';
import { softmax } from '../../src/metrics/softmax';
import { tinyModel } from './tiny-model';

let model: Transformer;
beforeAll(async () => {
  await startEngine();
  model = tinyModel();
});
afterAll(() => dispose(model.parameters as never));

const prompts = [[1, 2, 3, 4, 5], [6], [7, 8, 9], [10, 11]];
const streams = (seed: number) => (prompt: number, sample: number) => Random.seed(seed).stream(`${prompt} ${sample}`);
/** The tokens of the first continuation of each prompt. */
const generate = (...args: Parameters<typeof continuations>) => continuations(...args).map(([one]) => one!.ids);

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

/** The exact distribution of the next token after 1, 2, 3, by the definitions of the filters. */
function exact({
  temperature = 1,
  topK = 0,
  topP = 1,
  minP = 0,
  repetitionPenalty = 1,
}: Partial<GenerateOptions>): number[] {
  const logits = Array.from(lastLogits(model, [[1, 2, 3]])[0]!, (z, id) =>
    [1, 2, 3].includes(id) ? (z > 0 ? z / repetitionPenalty : z * repetitionPenalty) : z,
  );
  const ranked = softmax(logits, temperature)
    .map((p, id) => ({ p, id }))
    .sort((a, b) => b.p - a.p)
    .slice(0, topK || Infinity);
  const mass = ranked.reduce((sum, { p }) => sum + p, 0);
  let sum = 0;
  const nucleus = ranked.filter(({ p }) => sum < topP * mass && (sum += p) > 0);
  const kept = nucleus.filter(({ p }) => p >= minP * ranked[0]!.p);
  const total = kept.reduce((all, { p }) => all + p, 0);
  return logits.map((_, id) => (kept.find((one) => one.id === id)?.p ?? 0) / total);
}

describe('sampling', () => {
  const samples = 4000;

  /** Chi-square of one sampled token against the exact distribution; tokens outside it must not be drawn. */
  function chiSquare(right: readonly number[], options: Partial<GenerateOptions>): { value: number; freedom: number } {
    const counts = right.map(() => 0);
    const [texts] = continuations(model, [[1, 2, 3]], { maxNewTokens: 1, samples, random: streams(11), ...options });
    for (const { ids } of texts!) counts[ids[0]!]!++;
    // Tokens expected less than 5 times are taken together, as the test wants it.
    let value = 0;
    let [rareSeen, rareExpected, cells] = [0, 0, 0];
    right.forEach((p, id) => {
      if (p === 0) expect([id, counts[id]]).toEqual([id, 0]);
      else if (p * samples < 5) [rareSeen, rareExpected] = [rareSeen + counts[id]!, rareExpected + p * samples];
      else [value, cells] = [value + (counts[id]! - p * samples) ** 2 / (p * samples), cells + 1];
    });
    if (rareExpected > 1) [value, cells] = [value + (rareSeen - rareExpected) ** 2 / rareExpected, cells + 1];
    return { value, freedom: cells - 1 };
  }

  /** Five standard deviations above the mean of chi-square: far beyond chance, far below a wrong distribution. */
  const limit = (freedom: number) => freedom + 5 * Math.sqrt(2 * freedom);

  it.each([0.5, 1, 2])('at temperature %d follows softmax(logits / T)', (temperature) => {
    const { value, freedom } = chiSquare(exact({ temperature }), { temperature });
    expect(freedom).toBeGreaterThan(2);
    expect(value).toBeLessThan(limit(freedom));
    // The same draws against another temperature: the test can tell.
    const other = chiSquare(exact({ temperature: temperature * 1.3 }), { temperature });
    expect(other.value).toBeGreaterThan(limit(other.freedom));
  });

  it.each([
    { topP: 0.3 },
    { topP: 0.6 },
    { topP: 0.9 },
    { topK: 1 },
    { topK: 4 },
    { topK: 1000 },
    { minP: 0.05 },
    { minP: 0.4 },
    { repetitionPenalty: 1.5 },
    { repetitionPenalty: 0.6 },
    { topK: 6, topP: 0.8 },
    { topK: 8, topP: 0.9, minP: 0.1, repetitionPenalty: 1.3 },
  ])('with %o keeps and rescales what transformers would', (filter) => {
    const options = { temperature: 1.5, ...filter };
    const right = exact(options);
    const { value, freedom } = chiSquare(right, options);
    expect(value).toBeLessThanOrEqual(limit(freedom));
    if (freedom === 0) expect(right.filter((p) => p > 0)).toEqual([1]);
  });

  it('a topP below every probability, or a temperature near 0, takes the most likely token', () => {
    const right = prompts.map((prompt) => greedily(prompt, 6));
    for (const options of [{ temperature: 1, topP: 1e-9 }, { temperature: 1e-6 }, { temperature: 1, topK: 1 }]) {
      expect(generate(model, prompts, { maxNewTokens: 6, random: streams(1), ...options })).toEqual(right);
    }
  });

  it('texts do not depend on their neighbours, nor on how many there are, and repeat with their streams', () => {
    const options = { maxNewTokens: 10, temperature: 1.2, stop: new Set([0, 1, 2]), samples: 7 };
    const ids = (...args: Parameters<typeof continuations>) => continuations(...args).map((one) => one.map((text) => text.ids)); // prettier-ignore
    const together = ids(model, prompts, { ...options, random: streams(3) });
    expect(new Set(together.flat().map(({ length }) => length)).size).toBeGreaterThan(2); // some end early
    const alone = prompts.map(
      (prompt, i) => ids(model, [prompt], { ...options, random: (_, s) => streams(3)(i, s) })[0]!,
    );
    expect(together).toEqual(alone);
    const single = prompts.map(
      (prompt, i) =>
      [...Array(7).keys()].map((s) => ids(model, [prompt], { ...options, samples: 1, random: () => streams(3)(i, s) })[0]![0]!), // prettier-ignore
    );
    expect(together).toEqual(single);
    expect(ids(model, prompts, { ...options, random: streams(4) })).not.toEqual(together);
  });

  it('says how likely the model finds each token, as scoring does, whatever it was sampled from', () => {
    const end = greedily(prompts[0]!, 3)[2]!;
    const options = {
      maxNewTokens: 6,
      samples: 3,
      temperature: 0.7,
      topK: 9,
      stop: new Set([end]),
      random: streams(8),
    };
    const all = continuations(model, prompts, options).flatMap((texts, p) => texts.map((text) => ({ ...text, p })));
    expect(all.some(({ stopped }) => stopped)).toBe(true);
    const scored = scoreContinuations(
      model,
      all.map(({ ids, stopped, p }) => ({ context: prompts[p]!, continuation: stopped ? [...ids, end] : ids })),
    );
    all.forEach(({ logprobs }, i) => {
      expect(logprobs).toHaveLength(scored[i]!.tokenLogProbs.length);
      logprobs.forEach((value, t) => expect(value).toBeCloseTo(scored[i]!.tokenLogProbs[t]!, 4));
    });
  });

  it('ends texts one by one', () => {
    const lengths = [3, 1, 5];
    const isDone = (_: number, ids: readonly number[], sample: number) => ids.length >= lengths[sample]!;
    const texts = continuations(model, prompts, {
      maxNewTokens: 5,
      samples: 3,
      temperature: 1,
      random: streams(2),
      isDone,
    });
    for (const one of texts) expect(one.map(({ ids }) => ids.length)).toEqual(lengths);
    const whole = continuations(model, prompts, { maxNewTokens: 5, samples: 3, temperature: 1, random: streams(2) });
    texts.forEach((one, p) => one.forEach(({ ids }, s) => expect(ids).toEqual(whole[p]![s]!.ids.slice(0, lengths[s]))));
  });

  it('refuses to sample without streams, out of range, or from logits that are no numbers, and keeps no tensors then', async () => {
    const random = streams(1);
    const parameters = map(model.parameters as never, (leaf) => tf.fill(leaf.shape, NaN)) as Transformer['parameters'];
    const broken = { ...model, parameters };
    const wrong: [Partial<GenerateOptions>, string][] = [
      [{ temperature: -1 }, 'temperature is -1'],
      [{ temperature: NaN }, 'temperature is NaN'],
      [{ topK: 1.5 }, 'topK is 1.5'],
      [{ topP: 0 }, 'topP is 0'],
      [{ minP: 2 }, 'minP is 2'],
      [{ repetitionPenalty: 0 }, 'repetitionPenalty is 0'],
    ];
    const kept = await tensorsKept(() => {
      expect(() => generate(model, prompts, { maxNewTokens: 3, temperature: 1 })).toThrow('needs random streams');
      for (const more of [{}, { topK: 3 }]) {
        expect(() => generate(broken, [[1]], { maxNewTokens: 3, temperature: 1, random, ...more })).toThrow(
          'are not numbers',
        );
      }
      for (const [options, message] of wrong) {
        expect(() => generate(model, prompts, { maxNewTokens: 3, random, ...options })).toThrow(message);
      }
      generate(model, prompts, {
        maxNewTokens: 3,
        temperature: 1,
        random,
        samples: 4,
        repetitionPenalty: 1.1,
        topP: 0.9,
      });
    });
    expect(kept).toBe(0);
    dispose(parameters);
  });
});
