import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const root = path.join(__dirname, '../..');
const folder = path.join(root, 'datasets', 'starter');

const kinds = ['mcq', 'open'] as const;
const splits = ['train', 'validation', 'test'] as const;
type Kind = (typeof kinds)[number];
type Split = (typeof splits)[number];

interface Row {
  file: string;
  kind: Kind;
  split: Split;
  value: Record<string, unknown>;
  /** How messages name the row: its id, or its file and line where it has none. */
  name: string;
}

interface Mcq {
  name: string;
  split: Split;
  topic: string;
  choices: string[];
  answer: number;
}

const readText = (file: string): string => readFileSync(path.join(folder, file), 'utf8');

const readRows = (kind: Kind, split: Split): Row[] => {
  const file = `${kind}/${split}.jsonl`;
  return readText(file)
    .replace(/\n$/, '')
    .split('\n')
    .map((line, index) => {
      const value = JSON.parse(line) as Record<string, unknown>;
      const name = typeof value.id === 'string' && value.id !== '' ? value.id : `${file}:${index + 1}`;
      return { file, kind, split, value, name };
    });
};

const rows: Row[] = kinds.flatMap((kind) => splits.flatMap((split) => readRows(kind, split)));
const mcqRows = rows.filter((row) => row.kind === 'mcq');
const openRows = rows.filter((row) => row.kind === 'open');

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';
const isTextArray = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);
const fold = (text: string): string => text.normalize('NFC').toLowerCase();
/** A question without case, punctuation and repeated spaces; signs of arithmetic stay. */
const stem = (text: string): string =>
  fold(text)
    .replace(/[^\p{L}\p{N}+*/=-]+/gu, ' ')
    .trim();
const duplicates = (items: string[]): string[] => items.filter((item, index) => items.indexOf(item) !== index);

/** The well-formed rows of the mcq files; malformed ones are reported by the tests of the fields. */
const mcq: Mcq[] = mcqRows.flatMap(({ name, split, value }) =>
  isTextArray(value.choices) && typeof value.answer === 'number' && isText(value.topic)
    ? [{ name, split, topic: value.topic, choices: value.choices, answer: value.answer }]
    : [],
);

/** Every row's problems, each with the id of the row; the test shows the whole list. */
const problems = (list: Row[], check: (row: Row) => string[]): string[] =>
  list.flatMap((row) => check(row).map((problem) => `${row.name}: ${problem}`));

const findRepeats = (key: (row: Row) => string): string[] => {
  const seen = new Map<string, string>();
  return rows.flatMap((row) => {
    const value = key(row);
    const before = seen.get(value);
    seen.set(value, row.name);
    return before === undefined ? [] : [`${row.name}: same as ${before} ("${value}")`];
  });
};

describe('starter data: files', () => {
  it.each(kinds.flatMap((kind) => splits.map((split) => `${kind}/${split}.jsonl`)))('%s is clean text', (file) => {
    const text = readText(file);
    expect(text.endsWith('\n'), `${file}: ends in a line end`).toBe(true);
    expect(text.includes('\r'), `${file}: has no carriage return`).toBe(false);
    expect(text.startsWith('\uFEFF'), `${file}: has no byte order mark`).toBe(false);
    expect(duplicates(text.split('\n').slice(0, -1)), `${file}: no line twice, none empty`).toEqual([]);
  });

  it('holds enough rows', () => {
    expect(mcqRows.length, 'mcq rows').toBeGreaterThanOrEqual(600);
    expect(openRows.length, 'open rows').toBeGreaterThanOrEqual(400);
    expect(mcqRows.filter((row) => row.split === 'test').length, 'mcq test rows').toBeGreaterThanOrEqual(250);
  });
});

describe('starter data: every row', () => {
  it('has exactly the documented fields', () => {
    const fields = { mcq: 'answer,choices,id,question,topic', open: 'answers,id,question,topic' };
    expect(
      problems(rows, ({ kind, value }) => {
        const found = Object.keys(value).sort().join(',');
        return found === fields[kind] ? [] : [`fields are ${found}, not ${fields[kind]}`];
      }),
    ).toEqual([]);
  });

  it('has an id, a question and a topic that are trimmed text', () => {
    expect(
      problems(rows, ({ kind, value }) =>
        ['id', 'question', 'topic'].flatMap((field) => {
          const text = value[field];
          if (!isText(text)) return [`${field} is not a text`];
          if (text !== text.trim() || /\s\s|[\n\t]/.test(text)) return [`${field} has stray white space`];
          if (field === 'id' && !new RegExp(`^${kind}-[a-z]+-\\d{3}$`).test(text)) return ['id has an unknown form'];
          return [];
        }),
      ),
    ).toEqual([]);
  });

  it('has an id of its own', () => {
    expect(findRepeats((row) => String(row.value.id))).toEqual([]);
  });

  it('has a question of its own, within and across splits and kinds', () => {
    expect(findRepeats((row) => stem(String(row.value.question)))).toEqual([]);
  });

  it('offers four distinct options, one of them marked as right (mcq)', () => {
    expect(
      problems(mcqRows, ({ value: { choices, answer } }) => {
        if (!isTextArray(choices)) return ['choices is not an array of non-empty texts'];
        const found: string[] = [];
        if (choices.length !== 4) found.push(`has ${choices.length} options, not 4`);
        if (choices.some((choice) => choice !== choice.trim())) found.push('an option is not trimmed');
        const same = duplicates(choices.map((choice) => fold(choice)));
        if (same.length > 0) found.push(`options occur twice: ${same.join(', ')}`);
        if (!Number.isInteger(answer) || (answer as number) < 0 || (answer as number) > 3) {
          found.push(`answer ${String(answer)} is not an index from 0 to 3`);
        }
        return found;
      }),
    ).toEqual([]);
  });

  it('lists distinct, trimmed answers (open)', () => {
    expect(
      problems(openRows, ({ value: { answers } }) => {
        if (!isTextArray(answers)) return ['answers is not an array of non-empty texts'];
        const found: string[] = [];
        if (answers.length === 0) found.push('has no answer');
        if (answers.some((answer) => answer !== answer.trim())) found.push('an answer is not trimmed');
        const same = duplicates(answers.map((answer) => fold(answer)));
        if (same.length > 0) found.push(`answers occur twice: ${same.join(', ')}`);
        return found;
      }),
    ).toEqual([]);
  });
});

describe('starter data: splits', () => {
  it('keeps each topic in one split, the same for both kinds', () => {
    const home = new Map<string, Split>();
    expect(
      problems(rows, ({ split, value }) => {
        const topic = String(value.topic);
        const first = home.get(topic) ?? split;
        home.set(topic, first);
        return first === split ? [] : [`topic ${topic} is in ${first} and in ${split}`];
      }),
    ).toEqual([]);
    expect(home.size, 'number of topics').toBeGreaterThanOrEqual(14);
    for (const topic of home.keys()) {
      for (const kind of kinds) {
        const count = rows.filter((row) => row.kind === kind && row.value.topic === topic).length;
        expect(count, `${kind} rows on ${topic}`).toBeGreaterThan(0);
      }
    }
    const testTopics = [...home.values()].filter((split) => split === 'test').length;
    expect(testTopics, 'topics in test').toBeGreaterThanOrEqual(5);
  });

  it.each(splits)('balances the place of the right option in mcq/%s', (split) => {
    const counts = [0, 1, 2, 3].map((index) => mcq.filter((m) => m.split === split && m.answer === index).length);
    const spread = Math.max(...counts) - Math.min(...counts);
    expect(spread, `mcq/${split}: right options at A to D: ${counts.join(', ')}`).toBeLessThanOrEqual(2);
  });

  it.each(splits)('does not give away the right option by its length in mcq/%s', (split) => {
    const of = mcq.filter((m) => m.split === split);
    const longest = of.filter((m) => m.choices.every((c) => c.length <= (m.choices[m.answer] ?? '').length));
    const share = longest.length / of.length;
    const names = longest.map((m) => m.name).join(' ');
    // Ties count as longest, so that this is the stricter reading.
    expect(share, `mcq/${split}: the right option is the longest or as long: ${names}`).toBeLessThan(0.4);
  });
});

describe('starter data: README', () => {
  it('states the size and the SHA-256 of every file', () => {
    expect(existsSync(path.join(folder, 'README.md')), 'datasets/starter/README.md exists').toBe(true);
    const lines = readText('README.md').split('\n');
    for (const kind of kinds) {
      for (const split of splits) {
        const file = `${kind}/${split}.jsonl`;
        const bytes = readFileSync(path.join(folder, file));
        const count = rows.filter((row) => row.file === file).length;
        const cells = (lines.find((line) => line.startsWith(`| \`${file}\``)) ?? '')
          .split('|')
          .map((cell) => cell.replaceAll('`', '').trim());
        const stated = cells.slice(1, 5);
        const hash = createHash('sha256').update(bytes).digest('hex');
        expect(stated, `README's line on ${file}`).toEqual([file, String(count), String(bytes.length), hash]);
      }
    }
  });

  it('states the split and the counts of every topic', () => {
    const lines = readText('README.md').split('\n');
    for (const topic of new Set(mcq.map((m) => m.topic))) {
      const on = rows.filter((row) => row.value.topic === topic);
      const count = (kind: Kind): string => String(on.filter((row) => row.kind === kind).length);
      const stated = (lines.find((line) => line.startsWith(`| ${topic} `)) ?? '').split('|').map((cell) => cell.trim());
      expect(stated.slice(3, 6), `README's line on ${topic}`).toEqual([on[0]?.split, count('mcq'), count('open')]);
    }
  });
});
