import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { dispose } from '../../src/engine/tree';
import { configFromGguf } from '../../src/model/config';
import { generate } from '../../src/model/generate';
import { openGguf } from '../../src/model/gguf';
import { GGUF_NAMES, loadParameters } from '../../src/model/load';
import { lastLogits, scoreContinuations, type Transformer } from '../../src/model';
import { HAS_SHARED, HAS_SMOL, sharedJson, SMOL } from '../shared';

interface Reference {
  prompts: {
    id: string;
    input_ids: number[];
    top10_ids: number[];
    top10_logprob_f64: number[];
    last_logsumexp_f64: number;
    loglikelihood: {
      context_ids: number[];
      continuation_ids: number[];
      token_logprob_f64: number[];
      total_f64: number;
      is_greedy: boolean;
      greedy_per_token: boolean[];
    };
  }[];
  generation: { id: string; input_ids: number[]; new_ids: number[] }[];
}

describe.skipIf(!HAS_SMOL || !HAS_SHARED)('SmolLM2 against the reference (needs the model and ../shared)', () => {
  let model: Transformer;
  let reference: Reference;

  beforeAll(async () => {
    await startEngine();
    reference = sharedJson('oracle', 'smol', 'public.json');
    const gguf = openGguf(SMOL);
    const config = configFromGguf(gguf.metadata, SMOL, true);
    model = { config, parameters: loadParameters(gguf, config, GGUF_NAMES) };
    gguf.close();
  });
  afterAll(() => dispose(model.parameters as never));

  it('gives the top-10 log-probabilities within 5e-4', () => {
    for (const { input_ids, top10_ids, top10_logprob_f64, last_logsumexp_f64 } of reference.prompts) {
      const [logits] = lastLogits(model, [input_ids]) as [Float32Array];
      const ranked = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!).slice(0, 10);
      expect(ranked).toEqual(top10_ids);
      ranked.forEach((id, i) =>
        expect(Math.abs(logits[id]! - last_logsumexp_f64 - top10_logprob_f64[i]!)).toBeLessThan(5e-4),
      );
    }
  });

  it('gives chosen tokens the same logits as the whole vocabulary, in a ragged batch too', () => {
    const prompts = reference.prompts.map((p) => p.input_ids);
    const alone = prompts.map((ids) => lastLogits(model, [ids])[0]!);
    const tokens = Int32Array.from([5, 319, 42]);
    lastLogits(model, prompts, tokens).forEach((logits, i) =>
      tokens.forEach((id, j) => expect(Math.abs(logits[j]! - alone[i]![id]!)).toBeLessThan(2e-4)),
    );
  });

  it('scores continuations, alone and as branches of one context', () => {
    for (const { loglikelihood: l } of reference.prompts) {
      const other = [11, 12, 13];
      const continuations = [other, l.continuation_ids, other];
      const asked = continuations.map((continuation) => ({ context: l.context_ids, continuation }));
      const scores = scoreContinuations(model, asked);
      const score = scores[1]!;
      score.tokenLogProbs.forEach((lp, i) => expect(Math.abs(lp - l.token_logprob_f64[i]!)).toBeLessThan(3e-4));
      expect(Math.abs(score.tokenLogProbs.reduce((a, b) => a + b, 0) - l.total_f64)).toBeLessThan(1e-3);
      expect(score.greedy).toEqual(l.greedy_per_token);
      expect(scores[0]!.tokenLogProbs).toHaveLength(3);
      scores[0]!.tokenLogProbs.forEach((lp, i) =>
        expect(Math.abs(lp - scores[2]!.tokenLogProbs[i]!)).toBeLessThan(1e-4),
      );
    }
  });

  it('generates the reference text greedily, one by one and in a ragged batch', () => {
    const prompts = reference.generation.map((g) => g.input_ids);
    const expected = reference.generation.map((g) => g.new_ids);
    const texts = (...args: Parameters<typeof generate>) => generate(...args).map(([one]) => one!.ids);
    expect(texts(model, prompts, { maxNewTokens: expected[0]!.length })).toEqual(expected);
    prompts.forEach((ids, i) => expect(texts(model, [ids], { maxNewTokens: 8 })).toEqual([expected[i]!.slice(0, 8)]));
  });

  it('keeps no tensors', async () => {
    const requests = [[4649], [4649, 314]].map((continuation) => ({ context: [504, 3575, 282], continuation }));
    expect(await tensorsKept(() => scoreContinuations(model, requests))).toBe(0);
    expect(await tensorsKept(() => lastLogits(model, [[504, 3575], [282]]))).toBe(0);
    expect(await tensorsKept(() => generate(model, [[504, 3575], [282]], { maxNewTokens: 3 }))).toBe(0);
    expect(tf.memory().numTensors).toBeGreaterThan(0);
  });
});
