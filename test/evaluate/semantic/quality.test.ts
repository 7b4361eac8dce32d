import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../../src/base/errors';
import {
  equivalenceQuality,
  normalised,
  readSemanticPairs,
  tokenF1,
  type Equivalence,
  type SemanticPair,
} from '../../../src/evaluate/semantic';

const folder = path.join(__dirname, '../../../datasets/semantic-pairs');
const file = path.join(folder, 'pairs.jsonl');
const readme = fs.readFileSync(path.join(folder, 'README.md'), 'utf8');

/** The rows of README's table whose first cell is code. */
const table = (heading: string) =>
  [
    ...readme
      .split(`\n## ${heading}\n`)[1]!
      .split('\n## ')[0]!
      .matchAll(/^\| `(.+?)`\s*\|(.+)\|$/gm),
  ].map(([, name, cells]) => [name!, ...cells!.split('|').map((cell) => cell.replace(/\*/g, '').trim())]);

describe('datasets/semantic-pairs', () => {
  it('has pairs as its README counts them', async () => {
    const pairs = await readSemanticPairs(file);
    const kinds = [...new Set(pairs.map(({ kind }) => kind))];
    const count = (kind: string, same?: boolean) =>
      String(pairs.filter((one) => one.kind === kind && (same === undefined || one.same === same)).length);
    expect(table('Kinds').map((row) => row.slice(0, 4))).toEqual(
      kinds.map((kind) => [kind, count(kind), count(kind, true), count(kind, false)]),
    );
    const part = pairs.filter(({ same }) => same).length / pairs.length;
    expect(readme).toContain(`${pairs.length} pairs`);
    expect(pairs.length).toBeGreaterThanOrEqual(320);
    expect(part).toBeGreaterThan(0.45);
    expect(part).toBeLessThan(0.55);
    const content = pairs.map(({ question, a, b }) => JSON.stringify([question, ...[a, b].sort()]));
    expect(new Set(content).size).toBe(pairs.length);
    pairs.forEach(({ id, question, kind }) => {
      expect(id).toMatch(new RegExp(`^${kind}-\\d\\d$`));
      expect(question).toMatch(/^[A-Z].*\?$/);
    });
  });
});

describe('equivalenceQuality', () => {
  // Precision, recall, F1, accuracy. A change of these is a change of meaning: see whether it is a better one, then write
  // it here and in the README.
  const PINNED: [Equivalence, number[]][] = [
    [normalised, [0.9907, 0.4332, 0.6028, 0.6901]],
    [tokenF1({ threshold: 0.5 }), [0.6007, 0.6518, 0.6252, 0.5758]],
    [tokenF1({ threshold: 0.6 }), [0.7632, 0.587, 0.6636, 0.6769]],
    [tokenF1({ threshold: 0.65 }), [0.7754, 0.587, 0.6682, 0.6835]],
    [tokenF1({ threshold: 0.7 }), [0.8898, 0.4575, 0.6043, 0.6747]],
    [tokenF1({ threshold: 0.8 }), [0.9187, 0.4575, 0.6108, 0.6835]],
    [tokenF1({ threshold: 0.9 }), [0.973, 0.4372, 0.6034, 0.6879]],
  ];

  it.each(PINNED.map(([choice, values]) => [choice.name, values, choice] as const))(
    '%s',
    async (name, values, choice) => {
      const pairs = await readSemanticPairs(file);
      const { precision, recall, f1, accuracy } = await equivalenceQuality(pairs, choice);
      const found = [precision!, recall!, f1!, accuracy];
      found.forEach((value, i) => expect(value).toBeCloseTo(values[i]!, 4));
      expect(table('Quality of the choices without a model')).toContainEqual([
        name,
        ...found.map((value) => value.toFixed(3)),
      ]);
    },
  );

  it('finds the default best by F1', async () => {
    const pairs = await readSemanticPairs(file);
    const f1 = async (choice: Equivalence) => (await equivalenceQuality(pairs, choice)).f1!;
    const best = await f1(tokenF1());
    for (const [choice] of PINNED) expect(await f1(choice)).toBeLessThanOrEqual(best);
  });

  const pair = (a: string, b: string, same: boolean, kind = 'x'): SemanticPair => {
    return { id: a + b, question: 'Q?', a, b, same, kind };
  };

  it('counts by hand', async () => {
    const pairs = [
      pair('a1', 'a1', true), // hit
      pair('b1', 'c1', true), // miss
      pair('d1', 'D1.', false), // alarm
      pair('e1', 'f1', false, 'y'),
    ];
    expect(await equivalenceQuality(pairs, normalised)).toEqual({
      name: 'normalised',
      ...{ n: 4, same: 2, precision: 1 / 2, recall: 1 / 2, f1: 1 / 2, accuracy: 1 / 2 },
      kinds: {
        x: { n: 3, same: 2, precision: 1 / 2, recall: 1 / 2, f1: 1 / 2, accuracy: 1 / 3 },
        y: { n: 1, same: 0, precision: null, recall: null, f1: null, accuracy: 1 },
      },
    });
  });

  it('refuses no pairs, and a relation that is none', async () => {
    await expect(equivalenceQuality([], normalised)).rejects.toThrow(UsageError);
    const of = (matrix: boolean[][]) =>
      equivalenceQuality([pair('a', 'b', true)], { name: 'bad', matrix: async () => matrix });
    await expect(of([])).rejects.toThrow(UsageError);
    await expect(
      of([
        [true, true],
        [false, true],
      ]),
    ).rejects.toThrow(/bad does not give a symmetric matrix/);
  });
});

describe('readSemanticPairs', () => {
  const read = async (...rows: object[]) => {
    const name = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'pairs-')), 'pairs.jsonl');
    fs.writeFileSync(name, rows.map((row) => JSON.stringify(row)).join('\n'));
    return readSemanticPairs(name);
  };
  const row = { id: '1', question: 'Q?', a: '', b: 'x', same: false, kind: 'empty' };

  it('names what is wrong', async () => {
    expect(await read(row)).toEqual([row]);
    await expect(read(row, { ...row, id: '2', same: 'no' })).rejects.toThrow(/line 2: field "same"/);
    await expect(read(row, row)).rejects.toThrow(/line 2: the id "1" stands twice/);
    await expect(read({})).rejects.toThrow(CalmError);
  });
});
