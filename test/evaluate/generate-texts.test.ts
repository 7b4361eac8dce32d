import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { setQuiet } from '../../src/base/progress';
import { tensorsKept } from '../../src/engine/leaks';
import { generateTexts, type GenerateTextsOptions } from '../../src/evaluate';
import { argmax } from '../../src/metrics';
import { lastLogits } from '../../src/model';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import { temporaryFolder } from '../model/make-files';
import { EOS, writeTinyFolder } from './tiny-folder';

let model: LanguageModel;
beforeAll(async () => {
  setQuiet(true);
  const chatTemplate = '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[reply]';
  model = await loadModel(writeTinyFolder(path.join(temporaryFolder(), 'tiny'), { maxPositions: 64, chatTemplate }));
});
afterAll(() => model.dispose());

const PROMPTS = ['One two three', 'x', 'And a somewhat longer one'];
const ids = (prompts: Parameters<typeof generateTexts>[1], options: GenerateTextsOptions) =>
  generateTexts(model, prompts, options).map((generated) => generated.ids);

describe('generateTexts', () => {
  it('takes the likeliest token each time, up to EOS, and decodes', () => {
    const found = generateTexts(model, PROMPTS, { maxNewTokens: 12 });
    PROMPTS.forEach((prompt, i) => {
      const sequence = model.tokenizer.encode(prompt);
      const right: number[] = [];
      while (right.length < 12) {
        const next = argmax(lastLogits(model, [[...sequence, ...right]])[0]!);
        if (next === EOS) break;
        right.push(next);
      }
      expect(found[i]!.ids).toEqual([right]);
      expect(found[i]!.texts).toEqual([model.tokenizer.decode(right)]);
    });
  });

  it('samples the same for the same seed and name, whatever stands beside it', () => {
    const options = { samples: 3, temperature: 1, maxNewTokens: 8, seed: 4 };
    const all = ids(PROMPTS, { ...options, names: ['a', 'b', 'c'] });
    expect(all.map((samples) => samples.length)).toEqual([3, 3, 3]);
    expect(ids([PROMPTS[2]!], { ...options, names: ['c'] })).toEqual([all[2]]);
    expect(ids(PROMPTS, { ...options, names: ['a', 'b', 'd'] })[2]).not.toEqual(all[2]);
    expect(ids(PROMPTS, { ...options, names: ['a', 'b', 'c'], seed: 5 })).not.toEqual(all);
    expect(new Set(all[0]!.map(String)).size).toBeGreaterThan(1); // samples differ from each other
    expect(ids(PROMPTS, { ...options, names: ['a', 'b', 'c'], samples: 2 })).toEqual(all.map((s) => s.slice(0, 2)));
  });

  it('samples greedily as the nucleus shrinks', () => {
    const greedy = ids(PROMPTS, { maxNewTokens: 6 });
    expect(ids(PROMPTS, { maxNewTokens: 6, temperature: 1, topP: 1e-9 })).toEqual(greedy);
    expect(ids(PROMPTS, { maxNewTokens: 6, temperature: 1e-6 })).toEqual(greedy);
  });

  it('answers conversations by the chat template', () => {
    const messages = [{ role: 'user', content: 'Hi' }];
    expect(ids([messages], { maxNewTokens: 6 })).toEqual(ids(['[user]Hi[reply]'], { maxNewTokens: 6 }));
  });

  it('refuses what leaves no room, naming the prompt', () => {
    const refusal = (prompts: string[], options: GenerateTextsOptions) => () => generateTexts(model, prompts, options);
    expect(refusal(['ok', 'y'.repeat(60)], { maxNewTokens: 5, names: ['p', 'q'] })).toThrow(
      "prompt q: 60 tokens and 5 new ones exceed the model's 64",
    );
    expect(refusal(['y'.repeat(60)], { maxNewTokens: 4 })).not.toThrow();
    expect(refusal(['ok', ''], {})).toThrow(CalmError);
    expect(refusal(['ok', ''], { maxNewTokens: 1 })).toThrow('prompt 1 is empty');
    expect(generateTexts(model, [])).toEqual([]);
  });

  it('keeps no tensors', async () => {
    expect(await tensorsKept(() => generateTexts(model, PROMPTS, { maxNewTokens: 4, temperature: 1 }))).toBe(0);
  });
});
