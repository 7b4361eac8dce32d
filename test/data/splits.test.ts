import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/engine/random';
import {
  dedupe,
  normaliseQuestion,
  readOpenQuestions,
  readQuestions,
  splitByFraction,
  splitByTopic,
} from '../../src/data';

const numbers = (n: number) => Array.from({ length: n }, (_, i) => i);

describe('splitByFraction', () => {
  test('every item in one split, in order, sizes by share', () => {
    const split = splitByFraction(numbers(10), { train: 0.5, validation: 0.2, test: 0.3 }, Random.seed(1));
    expect([split.train.length, split.validation.length, split.test.length]).toEqual([5, 2, 3]);
    expect(split.train).toEqual([...split.train].sort((a, b) => a - b));
  });

  test('is a partition within one item of the shares, the same for the same seed, another for another', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 120 }),
        fc.integer(),
        fc.double({ min: 0.01, max: 0.98, noNaN: true }),
        (n, seed, a) => {
          const shares = { a, b: (1 - a) / 2, c: (1 - a) / 2 };
          const split = splitByFraction(numbers(n), shares, Random.seed(seed));
          expect([...split.a, ...split.b, ...split.c].sort((x, y) => x - y)).toEqual(numbers(n));
          for (const name of ['a', 'b', 'c'] as const) {
            expect(Math.abs(split[name].length - shares[name] * n)).toBeLessThanOrEqual(1);
          }
          expect(splitByFraction(numbers(n), shares, Random.seed(seed))).toEqual(split);
        },
      ),
    );
    const of = (seed: number) => splitByFraction(numbers(100), { a: 0.5, b: 0.5 }, Random.seed(seed)).a;
    expect(of(1)).not.toEqual(of(2));
  });

  test.each([[{ a: 0.5, b: 0.4 }], [{ a: 1.5, b: -0.5 }], [{ a: 1, b: 0 }], [{ a: NaN, b: 0.5 }], [{}]] as [
    Record<string, number>,
  ][])('refuses shares %j', (shares) => {
    expect(() => splitByFraction(numbers(9), shares, Random.seed(1))).toThrow('shares must be positive and sum to 1');
  });
});

describe('splitByTopic', () => {
  const items = (sizes: number[]) => sizes.flatMap((n, topic) => numbers(n).map((i) => ({ topic: `t${topic}`, i })));
  const topicOf = (item: { topic: string }) => item.topic;

  test('no topic stands in two splits and none is empty', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 3, maxLength: 20 });
    fc.assert(
      fc.property(sizes, fc.integer(), (all, seed) => {
        const split = splitByTopic(items(all), topicOf, { train: 0.7, validation: 0.1, test: 0.2 }, Random.seed(seed));
        const topics = Object.values(split).map((part) => new Set(part.map(topicOf)));
        expect(topics.every((set) => set.size > 0)).toBe(true);
        expect(topics.reduce((sum, set) => sum + set.size, 0)).toBe(all.length);
        expect(Object.values(split).flat()).toHaveLength(items(all).length);
      }),
    );
  });

  test('shares are met as well as whole topics allow', () => {
    const equal = items(numbers(10).map(() => 6));
    const split = splitByTopic(equal, topicOf, { train: 0.6, validation: 0.2, test: 0.2 }, Random.seed(3));
    expect([split.train.length, split.validation.length, split.test.length]).toEqual([36, 12, 12]);
    expect(splitByTopic(equal, topicOf, { train: 0.6, validation: 0.2, test: 0.2 }, Random.seed(3))).toEqual(split);
  });

  test('fewer topics than splits', () => {
    expect(() => splitByTopic(items([5, 5]), topicOf, { a: 0.4, b: 0.3, c: 0.3 }, Random.seed(1))).toThrow(
      '2 topics cannot be split into 3 parts',
    );
  });
});

describe('dedupe', () => {
  const q = (question: string, choices = ['a', 'b']) => ({ question, choices });

  test('letter case, compatibility forms, white space and punctuation at the ends do not make a question another', () => {
    expect(normaliseQuestion('  Which\u00a0is  the ﬁnest?')).toBe('which is the finest');
    expect(normaliseQuestion('2 + 2 = ?')).not.toBe(normaliseQuestion('2 - 2 = ?'));
  });

  test('leaves out what the test set asks, with whatever options, and repeats with the same options in any order', () => {
    const { kept, removed } = dedupe(
      [q('One?'), q('Two?'), q('one'), q('One?', ['b', 'A']), q('One?', ['c', 'd']), q('Three')],
      [q('TWO', ['x', 'y'])],
    );
    expect(kept).toEqual([q('One?'), q('One?', ['c', 'd']), q('Three')]);
    expect(removed).toHaveLength(3);
  });

  test('the same question about another passage is another', () => {
    const rows = [
      { question: 'Is it?', passage: 'p', choices: ['no', 'yes'] },
      { question: 'Is it?', passage: 'r', choices: ['no', 'yes'] },
    ];
    expect(dedupe(rows).kept).toHaveLength(2);
    expect(dedupe(rows, [rows[1]!]).kept).toEqual([rows[0]]);
  });

  const DATA = path.join(__dirname, '../../../shared/data');
  describe.skipIf(!fs.existsSync(DATA))('benchmark files (skipped without shared/data)', () => {
    const at = (name: string) => path.join(DATA, name);
    const leaked = (train: { question: string }[], other: { question: string }[]) => {
      const asked = new Set(other.map(({ question }) => normaliseQuestion(question)));
      const { kept, removed } = dedupe(train, other);
      expect(kept.filter(({ question }) => asked.has(normaliseQuestion(question)))).toEqual([]);
      return removed.filter(({ question }) => asked.has(normaliseQuestion(question))).length;
    };

    test('23 questions of OpenBookQA and of PopQA stand in both parts', async () => {
      const skip = { invalid: 'skip' } as const;
      const openbook = await Promise.all(
        ['train', 'test'].map((s) => readQuestions(at(`openbookqa/${s}.jsonl`), skip)),
      );
      expect(leaked(openbook[0]!.questions, openbook[1]!.questions)).toBe(23);
      const popqa = await Promise.all(['dev', 'test'].map((s) => readOpenQuestions(at(`popqa/${s}.jsonl`))));
      expect(leaked(popqa[0]!.questions, popqa[1]!.questions)).toBe(23);
    });
  });
});
