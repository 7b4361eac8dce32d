import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { startEngine } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { lastLogits, scoreContinuations, withSharedPrefix } from '../../src/model';
import { maxAbsDifference } from '../shared';
import { tinyModel } from './tiny-model';

beforeAll(startEngine);

const ids = fc.array(fc.integer({ min: 0, max: 22 }), { minLength: 1, maxLength: 6 });

it('scores what follows a shared beginning as it scores the whole text', () => {
  const model = tinyModel(1, { maxPositions: 512 });
  const shared = fc.array(fc.integer({ min: 0, max: 22 }), { minLength: 150, maxLength: 160 });
  const texts = fc.array(fc.record({ context: ids, continuation: ids }), { minLength: 3, maxLength: 5 });
  fc.assert(
    fc.property(shared, texts, (beginning, rest) => {
      const whole = rest.map((text) => ({ ...text, context: [...beginning, ...text.context] }));
      const prompts = whole.map((text) => text.context);
      withSharedPrefix(model, prompts, (prefix) => {
        expect(prefix!.length).toBeGreaterThanOrEqual(beginning.length);
        const [logits, plain] = [lastLogits(model, prompts, undefined, prefix), lastLogits(model, prompts)];
        logits.forEach((row, i) => expect(maxAbsDifference(row, plain[i]!)).toBeLessThan(1e-4));
        const scores = [scoreContinuations(model, whole, prefix), scoreContinuations(model, whole)].map((found) =>
          found.flatMap(({ tokenLogProbs }) => tokenLogProbs),
        );
        expect(maxAbsDifference(scores[0]!, scores[1]!)).toBeLessThan(1e-4);
      });
    }),
    { numRuns: 10 },
  );
});

it('leaves every text a token of its own, and does without where little is shared', () => {
  const model = tinyModel(1, { maxPositions: 512 });
  const same = Array.from({ length: 200 }, (_, i) => i % 23);
  withSharedPrefix(model, [same, same, [...same, 3]], (prefix) => expect(prefix?.length).toBe(199));
  withSharedPrefix(model, [same.slice(0, 20), same], (prefix) => expect(prefix).toBeUndefined());
  withSharedPrefix(model, [same], (prefix) => expect(prefix).toBeUndefined());
  withSharedPrefix(model, [], (prefix) => expect(prefix).toBeUndefined());
});

it('frees the cache, also after an error', async () => {
  const model = tinyModel(1, { maxPositions: 512 });
  const same = Array.from({ length: 300 }, (_, i) => i % 23);
  const failing = () =>
    withSharedPrefix(model, [same, same], () => {
      throw new Error('in the middle');
    });
  expect(await tensorsKept(() => expect(failing).toThrow('in the middle'))).toBe(0);
});
