import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import type { ChoiceQuestion } from '../../src/data';
import { loadTask, taskNames } from '../../src/evaluate';
import { temporaryFolder } from '../model/make-files';
import { HAS_SHARED, SHARED } from '../shared';
import { writeJsonl } from './tiny-folder';

const data = temporaryFolder();
vi.stubEnv('CALM_CACHE', temporaryFolder()); // whatever was fetched on this machine
const row = (id: string, more: object = {}) => ({
  id,
  question: `What is ${id}?`,
  choices: ['this', 'that'],
  answer: 0,
  ...more,
});
writeJsonl(path.join(data, 'own', 'dev.jsonl'), [row('d1')]);
writeJsonl(path.join(data, 'own', 'test.jsonl'), [row('t1'), row('t2'), row('t3')]);
writeJsonl(path.join(data, 'openbookqa', 'train.jsonl'), [row('o1')]);
writeJsonl(path.join(data, 'single.jsonl'), [row('s1'), row('s2')]);
fs.mkdirSync(path.join(data, 'nothing'));

async function refusal(name: string, options: Parameters<typeof loadTask>[1] = {}): Promise<CalmError> {
  const error: unknown = await loadTask(name, options).catch((e: unknown) => e);
  if (!(error instanceof CalmError)) throw new Error(`${name} gave ${String(error)}`);
  return error;
}

describe('loadTask', () => {
  it('has the starter questions of the package, the test split unless another is asked for', async () => {
    const test = await loadTask('starter');
    expect([test.name, test.split]).toEqual(['starter', 'test']);
    expect(test.docs.length).toBeGreaterThan(100);
    expect(test.skipped).toEqual([]);
    const validation = await loadTask('starter', { split: 'validation', limit: 5 });
    expect(validation.docs).toHaveLength(5);
    expect(validation.source).toMatch(/validation\.jsonl$/);
  });

  it('finds a folder of splits, the one to test on first, and a single file', async () => {
    expect((await loadTask('own', { data })).docs.map((doc) => doc.id)).toEqual(['t1', 't2', 't3']);
    expect((await loadTask('own', { data, limit: 2 })).docs).toHaveLength(2);
    expect((await loadTask('own', { data, limit: 0.5 })).docs).toHaveLength(2); // of 3, rounded up
    expect(await loadTask('own', { data, split: 'dev' })).toMatchObject({ split: 'dev', docs: [{ id: 'd1' }] });
    expect(await loadTask('openbookqa', { data })).toMatchObject({ split: 'train' });
    const single = await loadTask('single', { data });
    expect(single).toMatchObject({ name: 'single', split: 'all', docs: [{ id: 's1' }, { id: 's2' }] });
    expect((await loadTask(path.join(data, 'single.jsonl'))).docs).toEqual(single.docs);
  });

  it('keeps the starter questions beside a data folder, unless it has its own', async () => {
    expect((await loadTask('starter', { data })).source).toMatch(/datasets.starter.mcq.test\.jsonl$/);
    const other = temporaryFolder();
    writeJsonl(path.join(other, 'starter.jsonl'), [row('mine')]);
    expect(await loadTask('starter', { data: other })).toMatchObject({ docs: [{ id: 'mine' }] });
  });

  it('finds what was fetched without being told where', async () => {
    const cache = temporaryFolder();
    writeJsonl(path.join(cache, 'data', 'truthfulqa', 'mc1_test.jsonl'), [row('fetched')]);
    vi.stubEnv('CALM_CACHE', cache);
    expect(await loadTask('truthfulqa_mc1')).toMatchObject({ split: 'mc1_test', docs: [{ id: 'fetched' }] });
  });

  it('asks as lm-evaluation-harness does, a passage first', async () => {
    const doc = { id: '1', question: 'Why?', choices: ['a', 'b'], answer: 0 };
    const [own, bare] = [await loadTask('own', { data }), await loadTask('openbookqa', { data })];
    expect(own.prompt(doc)).toBe('Question: Why?\nAnswer:');
    expect(own.prompt({ ...doc, passage: 'Read this.' })).toBe('Read this.\nQuestion: Why?\nAnswer:');
    expect(bare.prompt(doc)).toBe('Why?');
  });

  it('E-21: counts the rows that cannot be used, with the reason', async () => {
    const file = writeJsonl(path.join(data, 'some.jsonl'), [
      row('good'),
      row('gold -100', { answer: -100 }),
      row('gold beyond', { answer: 2 }),
      row('no options', { choices: [] }),
      row('one option', { choices: ['this'] }),
      row('two alike', { choices: ['this', ' this'] }),
      row('27 options', { choices: Array.from({ length: 27 }, (_, i) => String(i)) }),
      'text',
    ]);
    const task = await loadTask(file);
    expect(task.docs.map((doc) => doc.id)).toEqual(['good']);
    expect(task.skipped.map(({ line }) => line)).toEqual([2, 3, 4, 5, 6, 7, 8]);
    expect(task.skipped[0]!.reason).toBe('field "answer": -100 is not the index of one of 2 options (0 to 1)');
    expect(task.skipped[4]!.reason).toBe('field "choices": has the option "this" twice');
  });

  it('refuses a file without one usable question', async () => {
    const file = writeJsonl(path.join(data, 'none.jsonl'), [row('x', { choices: [] }), row('y', { answer: 9 })]);
    expect((await refusal(file)).line).toMatch(/none\.jsonl, line 1: field "choices": .*and 1 more invalid rows/);
    expect((await refusal(writeJsonl(path.join(data, 'empty.jsonl'), []))).line).toMatch(/empty\.jsonl is empty/);
  });

  it.each([
    ['arc_eazy', {}, 'unknown task "arc_eazy"; did you mean arc_easy'],
    ['arc_easy', {}, 'the task arc_easy needs its rows; name the folder'],
    ['own', { data, split: 'tset' }, 'unknown split of own "tset"; did you mean test?'],
    ['starter', { split: 'tests' }, 'unknown split of starter "tests"; did you mean test?'],
    ['ow', { data }, `unknown task of ${data} "ow"; did you mean own?`],
    ['arc_easy', { data }, `unknown task of ${data} "arc_easy"; there are: `],
    ['arc_easy', { data }, `; calm fetch arc_easy --data ${data} downloads its rows`],
    ['single.jsonl/x', { data }, `unknown task of ${data} "single.jsonl/x"`],
    ['constructor', { data }, `unknown task of ${data} "constructor"`],
    ['own', { data: path.join(data, 'absent') }, 'does not exist; check --data'],
    ['own', { data: path.join(data, 'single.jsonl') }, 'is not a folder; check --data'],
    ['nothing', { data }, 'has no .jsonl files'],
    ['single', { data, split: 'test' }, 'is one file, without a split "test"'],
    [path.join(data, 'absent.jsonl'), {}, 'has no file "absent.jsonl"'],
    ['own', { data, limit: 0 }, 'limit must be a positive integer'],
    ['own', { data, shots: 1.5 }, 'shots is 1.5'],
  ])('refuses %s with %o', async (name, options, message) => {
    const error = await refusal(name, options);
    expect(error.line).toContain(message);
    if (!name.endsWith('.jsonl')) expect(error).toBeInstanceOf(UsageError);
  });
});

describe('taskNames', () => {
  it.skipIf(!HAS_SHARED)('are tasks that load from a folder of benchmarks (needs ../shared)', async () => {
    for (const name of taskNames()) {
      const task = await loadTask(name, { data: path.join(SHARED, 'data'), limit: 3 });
      expect(task.docs.length, name).toBe(3);
      const [{ question }] = task.docs as [ChoiceQuestion];
      const [start] = question.split('_') as [string]; // WinoGrande's option stands at the blank
      expect([task.prompt(task.docs[0]!)].flat()[0], name).toContain(name === 'winogrande' ? start : question);
    }
  });
});
