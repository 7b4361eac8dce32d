import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../../src/base/errors';
import { clusterAnswers, clusterCorrect, normalised, tokenF1, type Linkage } from '../../../src/evaluate/semantic';

/** The relation of answers by letters: two of a given pair, or the same. */
const relation = (answers: readonly string[], pairs: readonly string[]) =>
  answers.map((a) => answers.map((b) => a === b || pairs.includes(a + b) || pairs.includes(b + a)));

const cluster = (samples: string, pairs: readonly string[], linkage?: Linkage) => {
  const answers = [...samples];
  return clusterAnswers(answers, relation(answers, pairs), linkage).join('');
};

describe('clusterAnswers', () => {
  it('numbers clusters as they appear', () => {
    expect(cluster('cabac', [])).toBe('01210');
    expect(cluster('', [])).toBe('');
    expect(cluster('a', [])).toBe('0');
    expect(clusterAnswers(['', ''], relation(['', ''], []))).toEqual([0, 0]);
  });

  it('puts the answer between two others with the more frequent, or the first by text', () => {
    expect(cluster('abcc', ['ab', 'bc'])).toBe('0111');
    expect(cluster('aabc', ['ab', 'bc'])).toBe('0001');
    expect(cluster('cba', ['ab', 'bc'])).toBe('011');
    expect(cluster('abc', ['ab', 'bc'])).toBe('001');
  });

  it('counts answers that relate alike together, however they are spelt', () => {
    // x, y and z are the same to all: three of them, against two of c.
    expect(cluster('bccxyz', ['xy', 'yz', 'xz', 'bx', 'by', 'bz', 'bc'])).toBe('011000');
  });

  it('joins a chain as one component', () => {
    expect(cluster('dabcd', ['ab', 'bc'], 'components')).toBe('01110');
    expect(cluster('aebdc', ['ab', 'bc', 'cd', 'de'], 'components')).toBe('00000');
    expect(cluster('abcd', ['ab', 'bc', 'cd'])).toBe('0011');
  });

  const LETTERS = [...'abcdefg'];
  const ALL = LETTERS.flatMap((a, i) => LETTERS.slice(i + 1).map((b) => a + b));
  const samples = fc.array(fc.constantFrom(...LETTERS), { maxLength: 20 });
  const related = fc.subarray(ALL);

  it('gives a partition that does not depend on the order of samples, equal texts together', () => {
    const shuffled = samples.chain((answers) =>
      fc.tuple(
        fc.constant(answers),
        fc.shuffledSubarray([...answers.keys()], { minLength: answers.length, maxLength: answers.length }),
      ),
    );
    fc.assert(
      fc.property(
        shuffled,
        related,
        fc.constantFrom<Linkage>('complete', 'components'),
        ([answers, order], pairs, by) => {
          const clusters = clusterAnswers(answers, relation(answers, pairs), by);
          expect(clusters).toHaveLength(answers.length);
          clusters.forEach((c, i) => expect(c).toBeLessThanOrEqual(Math.max(-1, ...clusters.slice(0, i)) + 1));
          const moved = order.map((i) => answers[i]!);
          const others = clusterAnswers(moved, relation(moved, pairs), by);
          order.forEach((i, at) =>
            order.forEach((j, other) => expect(others[at] === others[other]).toBe(clusters[i] === clusters[j])),
          );
          answers.forEach((a, i) => expect(clusters[answers.indexOf(a)]).toBe(clusters[i]));
        },
      ),
    );
  });

  it('gives cliques by complete linkage, no two of which are one clique', () => {
    fc.assert(
      fc.property(samples, related, (answers, pairs) => {
        const same = relation(answers, pairs);
        const clusters = clusterAnswers(answers, same, 'complete');
        const membersOf = (c: number) => answers.flatMap((_, i) => (clusters[i] === c ? [i] : []));
        const whole = (members: number[]) => members.every((i) => members.every((j) => same[i]![j]));
        const ids = [...new Set(clusters)];
        ids.forEach((c) => expect(whole(membersOf(c))).toBe(true));
        ids.forEach((c) =>
          ids.forEach((d) => expect(c === d || !whole([...membersOf(c), ...membersOf(d)])).toBe(true)),
        );
      }),
    );
  });

  it('gives the transitive closure by components', () => {
    fc.assert(
      fc.property(samples, related, (answers, pairs) => {
        const reach = relation(answers, pairs);
        const n = answers.length;
        for (let k = 0; k < n; k++) {
          for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) reach[i]![j] ||= reach[i]![k]! && reach[k]![j]!;
        }
        const clusters = clusterAnswers(answers, relation(answers, pairs), 'components');
        for (let i = 0; i < n; i++) {
          for (let j = 0; j < n; j++) expect(clusters[i] === clusters[j]).toBe(reach[i]![j]);
        }
      }),
    );
  });

  it('equals the classes of a relation that is transitive, by either linkage', () => {
    const answers = ['Paris', 'paris.', 'It is Paris', 'Lyon', "I don't know", 'Unknown', '', '...', 'LYON'];
    const same = normalised.matrix('', answers);
    for (const linkage of ['complete', 'components'] as const) {
      expect(clusterAnswers(answers, same, linkage)).toEqual([0, 0, 0, 1, 2, 2, 3, 3, 1]);
    }
  });

  it('refuses a matrix that is not such a relation', () => {
    const bad = (same: boolean[][], answers = ['a', 'b']) =>
      expect(() => clusterAnswers(answers, same)).toThrow(UsageError);
    bad([[true, false]]);
    bad([[true], [true]]);
    bad([
      [true, true],
      [false, true],
    ]);
    bad([
      [false, false],
      [false, true],
    ]);
    bad(
      [
        [true, false],
        [false, true],
      ],
      ['a', 'a'],
    );
    expect(() => clusterAnswers([], [], 'single' as Linkage)).toThrow(/unknown linkage/);
  });

  it('clusters 300 questions of 20 answers in less than a second', () => {
    const questions = Array.from({ length: 300 }, (_, q) =>
      Array.from({ length: 20 }, (_, i) => `It was number ${i % 7} of the ${q}th Street, St. Louis${i % 2 ? '.' : ''}`),
    );
    const started = performance.now();
    for (const answers of questions) clusterAnswers(answers, normalised.matrix('', answers));
    expect(performance.now() - started).toBeLessThan(1000);
    const hard = questions[0]!.flatMap((answer) => [answer, answer.split(' ').slice(3).join(' ')]);
    expect(new Set(clusterAnswers(hard, tokenF1().matrix('', hard))).size).toBeGreaterThan(0);
  });
});

describe('clusterCorrect', () => {
  it('is by majority, a tie being right', () => {
    expect(clusterCorrect([0, 0, 0, 1, 1, 2, 2, 3], [true, true, false, true, false, false, false, true])).toEqual([
      true,
      true,
      false,
      true,
    ]);
    expect(clusterCorrect([], [])).toEqual([]);
  });

  it('refuses what does not fit', () => {
    expect(() => clusterCorrect([0], [])).toThrow(UsageError);
    expect(() => clusterCorrect([-1], [true])).toThrow(UsageError);
    expect(() => clusterCorrect([0.5], [true])).toThrow(UsageError);
    expect(() => clusterCorrect([1e9], [true])).toThrow(UsageError);
  });
});
