import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { docHash, readOpenQuestions, readQuestions } from '../../src/data';

let folder: string;
beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-questions-'));
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

function write(content: string | unknown[], name = 'quiz.jsonl'): string {
  const file = path.join(folder, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, typeof content === 'string' ? content : content.map((r) => JSON.stringify(r)).join('\n'));
  return file;
}

async function lineOf(run: Promise<unknown>): Promise<string> {
  const error = await run.then(
    () => undefined,
    (e: unknown) => e,
  );
  if (!(error instanceof CalmError)) throw new Error(`no CalmError but ${String(error)}`);
  expect(error.line).not.toContain('\n');
  return error.line;
}

const GOOD = { question: 'Which is blue?', choices: ['grass', 'the sky'], answer: 1 };

describe('readQuestions', () => {
  test('ids from the rows or from file and line, topics under their usual names, other fields dropped', async () => {
    const rows = [
      GOOD,
      { ...GOOD, id: 'q-7', topic: 'colours', passage: 'It is noon.', source: 'x' },
      { ...GOOD, id: 8, subject: 'colours' },
      { ...GOOD, id: null, category: 'colours' },
    ];
    const { questions, skipped } = await readQuestions(write(rows));
    expect(skipped).toEqual([]);
    expect(questions).toEqual([
      { ...GOOD, id: 'quiz-1' },
      { ...GOOD, id: 'q-7', topic: 'colours', passage: 'It is noon.' },
      { ...GOOD, id: '8', topic: 'colours' },
      { ...GOOD, id: 'quiz-4', topic: 'colours' },
    ]);
  });

  test('texts are kept as they are: HTML, Unicode, line separators, white space', async () => {
    const row = { question: ' <b>½</b> &amp; \u2028 e\u0301\u0085 ', choices: [' a', 'a\u00a0b', '🙂'], answer: 0 };
    const { questions } = await readQuestions(write([row]));
    expect(questions[0]).toMatchObject(row);
  });

  test('byte order mark, CRLF, blank lines and no newline at the end', async () => {
    const line = JSON.stringify(GOOD);
    const { questions } = await readQuestions(write(`\uFEFF${line}\r\n\r\n${line}`));
    expect(questions.map((q) => q.id)).toEqual(['quiz-1', 'quiz-3']);
  });

  test('limit counts questions and reads no further', async () => {
    const file = write([GOOD, { question: 'no options' }, GOOD, GOOD, { question: 'never read' }]);
    const { questions, skipped } = await readQuestions(file, { limit: 2, invalid: 'skip' });
    expect(questions.map((q) => q.id)).toEqual(['quiz-1', 'quiz-3']);
    expect(skipped.map((s) => s.line)).toEqual([2]);
    for (const limit of [0, -1, 1.5, NaN]) {
      expect(await lineOf(readQuestions(file, { limit }))).toBe(`limit must be a positive integer, got ${limit}`);
    }
  });

  const wide = (n: number) => Array.from({ length: n }, (_, i) => `option ${i}`);
  test.each([
    [{ ...GOOD, choices: undefined }, 'field "choices": Invalid input: expected array'],
    [{ ...GOOD, choices: [] }, 'field "choices": has fewer than 2 options'],
    [{ ...GOOD, choices: ['one'], answer: 0 }, 'field "choices": has fewer than 2 options'],
    [{ ...GOOD, choices: wide(27) }, 'field "choices": has more than 26 options'],
    [{ ...GOOD, choices: ['a', 3] }, 'field "choices.1": Invalid input: expected string'],
    [{ ...GOOD, choices: ['a', ' '] }, 'field "choices.1": is blank'],
    [{ ...GOOD, choices: ['a', 'b', ' a '] }, 'field "choices": has the option "a" twice'],
    [{ ...GOOD, answer: 2 }, 'field "answer": 2 is not the index of one of 2 options (0 to 1)'],
    [{ ...GOOD, answer: -1 }, 'field "answer": -1 is not the index'],
    [{ ...GOOD, answer: -100 }, 'field "answer": -100 is not the index'],
    [{ ...GOOD, answer: 0.5 }, 'field "answer": is not an integer'],
    [{ ...GOOD, answer: 'B' }, 'field "answer": is not an integer'],
    [{ ...GOOD, answer: undefined }, 'field "answer": is not an integer'],
    [{ ...GOOD, question: '' }, 'field "question": is blank'],
    [{ ...GOOD, question: 3 }, 'field "question": Invalid input: expected string'],
    [['question', 'a', 'b'], 'the row: Invalid input: expected object'],
    ['text', 'the row: Invalid input: expected object'],
  ])('a row at fault is named with file, line and field: %j', async (row, reason) => {
    const file = write([GOOD, row, GOOD]);
    expect(await lineOf(readQuestions(file))).toContain(`${file}, line 2: ${reason}`);
    const { questions, skipped } = await readQuestions(file, { invalid: 'skip' });
    expect(questions).toHaveLength(2);
    expect(skipped).toEqual([{ line: 2, reason: expect.stringContaining(reason) as string }]);
  });

  test('2 and 26 options are fine, and so are options that differ in letter case', async () => {
    const rows = [
      { ...GOOD, choices: wide(26), answer: 25 },
      { ...GOOD, choices: ['Fe', 'FE'] },
    ];
    expect((await readQuestions(write(rows))).questions).toHaveLength(2);
  });

  test('the error names the first row at fault and says how many more there are', async () => {
    const file = write([GOOD, { ...GOOD, answer: 5 }, { ...GOOD, answer: 6 }, {}]);
    expect(await lineOf(readQuestions(file))).toMatch(/line 2: field "answer": 5 .*\(and 2 more invalid rows\)/);
  });

  test('an id that stands twice is at fault, also when it is that of a line', async () => {
    const file = write([{ ...GOOD, id: 'a' }, { ...GOOD, id: 'a' }, { ...GOOD, id: 'quiz-4' }, GOOD]);
    const { skipped } = await readQuestions(file, { invalid: 'skip' });
    expect(skipped).toEqual([
      { line: 2, reason: 'field "id": "a" is also that of line 1' },
      { line: 4, reason: 'field "id": "quiz-4" is also that of line 3' },
    ]);
  });

  test('nothing usable is an error even when rows may be skipped', async () => {
    expect(await lineOf(readQuestions(write([{}, {}]), { invalid: 'skip' }))).toContain('(and 1 more invalid rows)');
  });

  test('an empty file, a CSV file, an unfinished line', async () => {
    expect(await lineOf(readQuestions(write('')))).toMatch(/quiz\.jsonl is empty/);
    expect(await lineOf(readQuestions(write('\n \n')))).toMatch(/quiz\.jsonl is empty/);
    const csv = write('question,a,b\nWhich?,x,y\n', 'quiz.csv');
    expect(await lineOf(readQuestions(csv, { invalid: 'skip' }))).toMatch(/quiz\.csv, line 1 is not JSON/);
    const cut = write(`${JSON.stringify(GOOD)}\n{"question": "Wh`);
    expect(await lineOf(readQuestions(cut, { invalid: 'skip' }))).toMatch(/line 2 is not JSON/);
  });

  test('a missing folder or file: the nearest names', async () => {
    write([GOOD], 'arc_easy/test.jsonl');
    write([GOOD], 'arc_easy/train.jsonl');
    const at = (...parts: string[]) => readQuestions(path.join(folder, ...parts));
    expect(await lineOf(at('arc_esy', 'test.jsonl'))).toMatch(/has no folder "arc_esy"; did you mean arc_easy\?$/);
    expect(await lineOf(at('arc_easy', 'tset.jsonl'))).toMatch(/has no file "tset.jsonl"; did you mean test.jsonl/);
    expect(await lineOf(at('arc_easy', 'validation.jsonl'))).toMatch(/there are: test.jsonl, train.jsonl$/);
    expect(await lineOf(at('arc_easy', 'deeper', 'still', 'x.jsonl'))).toMatch(
      /has no folder "deeper"; check the path/,
    );
    expect(await lineOf(at('arc_easy'))).toMatch(/is a folder/);
  });
});

describe('readOpenQuestions', () => {
  test('reads answers with their aliases', async () => {
    const file = write([{ question: 'Capital of Var?', answers: ['Toulon', 'Tolon'], id: 3 }]);
    expect((await readOpenQuestions(file)).questions).toEqual([
      { id: '3', question: 'Capital of Var?', answers: ['Toulon', 'Tolon'] },
    ]);
  });

  test.each([
    [{ question: 'x' }, 'field "answers"'],
    [{ question: 'x', answers: [] }, 'field "answers": is empty'],
    [{ question: 'x', answers: ['', 'a'] }, 'field "answers.0": is blank'],
    [{ question: 'x', answers: 'a' }, 'field "answers"'],
  ])('refuses %j', async (row, reason) => {
    expect(await lineOf(readOpenQuestions(write([row])))).toContain(`line 1: ${reason}`);
  });
});

describe('docHash', () => {
  test('is that of the content, whatever the order of fields, id and topic', async () => {
    const file = write(['{"id":"a","answer":1,"choices":["x","y"],"question":"q","topic":"t"}', ''].join('\n'));
    const [question] = (await readQuestions(file)).questions;
    // printf '{"question":"q","passage":null,"choices":["x","y"],"answer":1}' | sha256sum
    expect(docHash(question!)).toBe('0c1a332e23012516');
    expect(docHash({ question: 'q', choices: ['x', 'y'], answer: 1 })).toBe(docHash(question!));
  });

  test('changes with everything that is asked', () => {
    const base = { question: 'q', choices: ['x', 'y'], answer: 1 };
    const others = [
      base,
      { ...base, question: 'Q' },
      { ...base, choices: ['y', 'x'] },
      { ...base, answer: 0 },
      { ...base, passage: 'p' },
      { question: 'q', answers: ['y'] },
    ];
    expect(new Set(others.map(docHash)).size).toBe(others.length);
  });
});

const DATA = path.join(__dirname, '../../../shared/data');
describe.skipIf(!fs.existsSync(DATA))('benchmark files (skipped without shared/data)', () => {
  // Rows with two equal options, counted by a separate script; all others are valid.
  const duplicates: Record<string, number> = {
    'commonsense_qa/train.jsonl': 65,
    'commonsense_qa/validation.jsonl': 24,
    'mathqa/test.jsonl': 44,
    'medmcqa/dev.jsonl': 8,
    'medmcqa/test.jsonl': 13,
    'mmlu/dev.jsonl': 1,
    'mmlu/test.jsonl': 4,
    'openbookqa/train.jsonl': 3,
  };
  const files = (fs.existsSync(DATA) ? fs.readdirSync(DATA, { recursive: true }) : [])
    .map(String)
    .filter((file) => file.endsWith('.jsonl'))
    .map((file) => {
      const lines = fs.readFileSync(path.join(DATA, file), 'utf8').trimEnd().split('\n');
      return { file, rows: lines.length, first: lines[0] ?? '' };
    });

  test.each(files.filter(({ first }) => first.includes('"choices"')))('$file', async ({ file, rows }) => {
    const { questions, skipped } = await readQuestions(path.join(DATA, file), { invalid: 'skip' });
    expect(skipped).toHaveLength(duplicates[file] ?? 0);
    expect(skipped.every(({ reason }) => reason.includes('twice'))).toBe(true);
    expect(questions.length + skipped.length).toBe(rows);
  });

  test.each(files.filter(({ first }) => first.includes('"answers"')))('$file', async ({ file, rows }) => {
    const { questions } = await readOpenQuestions(path.join(DATA, file));
    expect(questions).toHaveLength(rows);
  });
});
