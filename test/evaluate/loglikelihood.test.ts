import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { encodePair } from '../../src/evaluate';
import { loglikelihood } from '../../src/evaluate/loglikelihood';
import { lastLogits, scoreContinuations, type ScoreRequest } from '../../src/model';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import { argmax, logSoftmax } from '../../src/metrics';
import { temporaryFolder } from '../model/make-files';
import { HAS_SHARED, HAS_SMOL, sharedJson } from '../shared';
import { writeTinyFolder } from './tiny-folder';

const folder = temporaryFolder();
let model: LanguageModel;
let short: LanguageModel; // reads 8 tokens at most
beforeAll(async () => {
  setQuiet(true);
  model = await loadModel(writeTinyFolder(path.join(folder, 'tiny')));
  short = await loadModel(writeTinyFolder(path.join(folder, 'short'), { maxPositions: 8 }));
});
afterAll(() => {
  model.dispose();
  short.dispose();
});

/** log p(continuation | context) from one forward pass a token, nothing shared and nothing batched. */
function independently({ context, continuation }: ScoreRequest, by = model) {
  const steps = continuation.map((token, i) => {
    const [logits] = lastLogits(by, [[...context, ...continuation.slice(0, i)]]) as [Float32Array];
    return { logProb: logSoftmax(logits)[token]!, greedy: argmax(logits) === token };
  });
  return { logProb: steps.reduce((sum, s) => sum + s.logProb, 0), isGreedy: steps.every((s) => s.greedy) };
}

function requests(count: number, random = Random.seed(3)): ScoreRequest[] {
  const text = (most: number) => Array.from({ length: 1 + random.integer(most) }, () => 97 + random.integer(26));
  const contexts = Array.from({ length: 4 }, () => text(30));
  return Array.from({ length: count }, () => ({ context: contexts[random.integer(4)]!, continuation: text(9) }));
}

describe('loglikelihood', () => {
  it('is that of each request computed by itself, token by token', () => {
    const asked = requests(12);
    const [first] = lastLogits(model, [asked[0]!.context]) as [Float32Array];
    asked.push({ context: asked[0]!.context, continuation: [argmax(first)] }); // surely greedy
    const found = loglikelihood(model, asked);
    found.forEach(({ logProb, isGreedy, tokenLogProbs, truncated }, i) => {
      const right = independently(asked[i]!);
      expect(Math.abs(logProb - right.logProb)).toBeLessThan(1e-4);
      expect([isGreedy, tokenLogProbs.length, truncated]).toEqual([right.isGreedy, asked[i]!.continuation.length, 0]);
    });
    expect(found.at(-1)!.isGreedy).toBe(true);
  });

  it('E-13: does not depend on the batch, nor on the order of requests', () => {
    const asked = requests(20);
    const right = loglikelihood(model, asked, { batchTokens: 1 });
    for (const batchTokens of [16, 100, 10_000]) {
      const order = Random.seed(batchTokens).shuffle([...asked.keys()]);
      const found = loglikelihood(model, order.map((i) => asked[i]!), { batchTokens }); // prettier-ignore
      order.forEach((i, at) => expect(Math.abs(found[at]!.logProb - right[i]!.logProb)).toBeLessThan(1e-5));
    }
  });

  it('E-6: cuts from the left what the model has no room for, and counts it', () => {
    const context = Array.from({ length: 12 }, (_, i) => 97 + i);
    const [one, four] = loglikelihood(short, [
      { context, continuation: [120] },
      { context, continuation: [120, 121, 122, 120] },
    ]);
    expect([one!.truncated, four!.truncated]).toEqual([4, 7]); // the last token needs no place
    const kept = { context: context.slice(-5), continuation: [120, 121, 122, 120] };
    expect(Math.abs(four!.logProb - independently(kept, short).logProb)).toBeLessThan(1e-4);
    expect(loglikelihood(short, [{ context: context.slice(0, 8), continuation: [120] }])[0]!.truncated).toBe(0);
  });

  it('E-8: a continuation longer than the context is impossible, not greedy, and flagged', () => {
    const continuation = Array.from({ length: 9 }, () => 120);
    const [none, other] = loglikelihood(short, [
      { context: [97, 98], continuation },
      { context: [97, 98], continuation: [120] },
    ]);
    expect(none).toEqual({ logProb: -Infinity, tokenLogProbs: [], isGreedy: false, truncated: 2 });
    expect(Number.isFinite(other!.logProb)).toBe(true);
    const [last] = loglikelihood(short, [{ context: [97, 98], continuation: continuation.slice(1) }]);
    expect([last!.truncated, last!.tokenLogProbs.length]).toEqual([1, 8]);
  });

  it('has nothing to do for no requests', () => {
    expect(loglikelihood(model, [])).toEqual([]);
  });

  it('keeps no tensors', async () => {
    expect(await tensorsKept(() => loglikelihood(model, requests(5)))).toBe(0);
  });
});

describe.skipIf(!HAS_SMOL || !HAS_SHARED)('loglikelihood of SmolLM2 (needs the model and ../shared)', () => {
  it('is the reference’s, from text, in one batch of ragged requests', async () => {
    type Pair = { context: string; continuation: string; total_f64: number; is_greedy: boolean };
    const { prompts } = sharedJson<{ prompts: { loglikelihood: Pair }[] }>('oracle', 'smol', 'public.json');
    const smol = await loadModel('smollm2-135m-instruct');
    const asked = prompts.map(({ loglikelihood: l }) => encodePair(smol.tokenizer, l.context, l.continuation));
    const found = loglikelihood(smol, asked);
    prompts.forEach(({ loglikelihood: l }, i) => {
      expect(Math.abs(found[i]!.logProb - l.total_f64)).toBeLessThan(1e-3);
      expect(found[i]!.isGreedy).toBe(l.is_greedy);
      const alone = scoreContinuations(smol, [asked[i]!])[0]!;
      alone.tokenLogProbs.forEach((lp, t) => expect(Math.abs(found[i]!.tokenLogProbs[t]! - lp)).toBeLessThan(1e-4));
    });
    smol.dispose();
  });
});
