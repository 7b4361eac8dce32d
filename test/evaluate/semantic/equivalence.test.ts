import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../../src/base/errors';
import {
  embedding,
  entailment,
  normalised,
  tokenF1,
  type EntailmentPair,
  type Equivalence,
} from '../../../src/evaluate/semantic';

const unit = (angle: number) => Float32Array.of(Math.cos(angle), Math.sin(angle));
/** A model of meaning by the length of texts: an angle for each. */
const byLength = embedding({ embed: (texts) => texts.map((text) => unit(text.length / 10)), threshold: 0.99 });
const byPrefix = entailment({
  entails: async (pairs) => pairs.map(({ premise, hypothesis }) => (premise.startsWith(hypothesis) ? 0.9 : 0.1)),
});
const CHOICES: Equivalence[] = [normalised, tokenF1(), tokenF1({ threshold: 0.4 }), byLength, byPrefix];

describe.each(CHOICES.map((choice) => [choice.name, choice] as const))('%s', (_, choice) => {
  const pool = [
    'Paris',
    'PARIS.',
    'Paris, France',
    'Lyon',
    "I don't know",
    'unknown',
    '',
    '—',
    '北京',
    '5 km',
    'five kilometres',
    '?',
  ];

  it('is reflexive, symmetric, alike for equal forms, and apart for refusals and silence', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...pool), { maxLength: 8 }), async (answers) => {
        const same = await choice.matrix('Where?', answers);
        expect(same.map((row) => row.length)).toEqual(answers.map(() => answers.length));
        answers.forEach((a, i) =>
          answers.forEach((b, j) => {
            expect(same[i]![j]).toBe(same[j]![i]);
            if (normalised.matrix('', [a, b])[0]![1]!) expect(same[i]).toEqual(same[j]);
            const declined = [a, b].map((one) => ["I don't know", 'unknown'].includes(one));
            const silent = [a, b].map((one) => ['', '—'].includes(one));
            if (declined[0] !== declined[1] || silent[0] !== silent[1]) expect(same[i]![j]).toBe(false);
            else if (declined[0] || silent[0]) expect(same[i]![j]).toBe(true);
          }),
        );
      }),
      { numRuns: 60 },
    );
  });

  it('takes odd answers', async () => {
    const odd = ['', ' ', '\n', '.', '?', '<|im_end|>', '</s>', 'word '.repeat(1000), '\ud800', '\u0301', '🙂', 'ا'];
    const same = await choice.matrix('', odd);
    odd.forEach((_, i) => expect(same[i]![i]).toBe(true));
    expect(await choice.matrix('', [])).toEqual([]);
  });
});

const holds = async (choice: Equivalence, a: string, b: string) => (await choice.matrix('Who?', [a, b]))[0]![1]!;

it('tokenF1 is inclusive of its threshold', async () => {
  expect(await holds(tokenF1({ threshold: 2 / 3 }), 'Albert Einstein', 'Einstein')).toBe(true);
  expect(await holds(tokenF1({ threshold: 0.67 }), 'Albert Einstein', 'Einstein')).toBe(false);
  expect(tokenF1().name).toBe('token-f1@0.65');
  for (const threshold of [0, -1, 1.1, NaN]) expect(() => tokenF1({ threshold })).toThrow(UsageError);
});

describe('embedding', () => {
  it('asks once for the texts that differ, whatever the order of samples', async () => {
    const asked: string[][] = [];
    const choice = embedding({
      embed: async (texts) => {
        asked.push(texts);
        return texts.map((_, i) => unit(i));
      },
      threshold: 0.9,
      phrase: (question, answer) => `${question} ${answer}`,
      model: 'tiny',
    });
    expect(choice.name).toBe('embedding@0.9 (tiny)');
    await choice.matrix('Where?', ['Paris.', 'Lyon', 'Paris', 'lyon', "I don't know", '']);
    await choice.matrix('Where?', ['', 'lyon', 'Paris', 'Lyon', 'Paris.', "I don't know"]);
    expect(asked).toEqual([
      ['Where? Lyon', 'Where? Paris'],
      ['Where? Lyon', 'Where? Paris'],
    ]);
    await choice.matrix('Where?', ['Paris', 'paris', '']);
    expect(asked).toHaveLength(2);
  });

  it('is a cosine at or above the threshold', async () => {
    const at = (threshold: number) => embedding({ embed: () => [unit(0), unit(Math.PI / 3)], threshold });
    expect(await holds(at(0.499), 'a one', 'b two')).toBe(true);
    expect(await holds(at(0.501), 'a one', 'b two')).toBe(false);
  });

  it('refuses vectors that are not unit vectors, one a text', async () => {
    const of = (...vectors: Float32Array[]) => holds(embedding({ embed: () => vectors, threshold: 0.5 }), 'x', 'y');
    await expect(of(unit(1))).rejects.toThrow('1 vectors for 2 texts');
    await expect(of(unit(1), Float32Array.of(2, 0))).rejects.toThrow(UsageError);
    await expect(of(unit(1), Float32Array.of(1))).rejects.toThrow(UsageError);
    await expect(of(unit(1), Float32Array.of(NaN, 1))).rejects.toThrow(UsageError);
    expect(() => embedding({ embed: () => [], threshold: 2 })).toThrow(UsageError);
  });
});

describe('entailment', () => {
  it('needs both directions, each after its question', async () => {
    const asked: EntailmentPair[] = [];
    const probability: Record<string, number> = { xy: 0.9, yx: 0.5, xz: 0.9, zx: 0.49, yz: 0, zy: 1 };
    const choice = entailment({
      entails: (pairs) => {
        asked.push(...pairs);
        return Float64Array.from(pairs, (p) => probability[p.premise.slice(-1) + p.hypothesis.slice(-1)]!);
      },
    });
    expect(await choice.matrix('Q?', ['z', 'x', 'y'])).toEqual([
      [true, false, false],
      [false, true, true],
      [false, true, true],
    ]);
    expect(asked).toHaveLength(6);
    expect(asked[0]).toEqual({ premise: 'Q? x', hypothesis: 'Q? y' });
  });

  it('refuses what is not a probability a pair', async () => {
    const of = (numbers: number[]) => holds(entailment({ entails: () => numbers }), 'x', 'y');
    await expect(of([1])).rejects.toThrow(UsageError);
    await expect(of([1, 1.5])).rejects.toThrow(UsageError);
    await expect(of([1, NaN])).rejects.toThrow(UsageError);
    expect(() => entailment({ entails: () => [], threshold: 0 })).toThrow(UsageError);
  });
});
