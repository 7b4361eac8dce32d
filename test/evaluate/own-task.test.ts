import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { tokenizerFromJson } from '../../src/data';
import { defineTask, loadTask, type TaskSpec } from '../../src/evaluate';
import { continuationRequests } from '../../src/evaluate/score';
import { temporaryFolder } from '../model/make-files';
import { tinyTokenizer, writeJsonl } from './tiny-folder';

const folder = temporaryFolder();
const plain = { tokenizer: tokenizerFromJson(tinyTokenizer(), {}) };
const CAPITALS = [
  { country: 'France', right: 'Paris', wrong: 'Lyon', continent: 'Europe' },
  { country: 'Peru', right: 'Lima', wrong: 'Cusco', continent: 'South America' },
];
const spec: TaskSpec = {
  name: 'capitals',
  rows: CAPITALS,
  question: 'What is the capital of {{country}}?',
  choices: ['{{right}}', '{{wrong | upper}}'],
  answer: '0',
  topic: '{{continent}}',
  prompt: 'Q: {{question}}\nA:',
};

async function refusal(more: Partial<TaskSpec> | object): Promise<string> {
  const error: unknown = await defineTask({ ...spec, ...more }).catch((e: unknown) => e);
  if (!(error instanceof CalmError)) throw new Error(`no refusal but ${String(error)}`);
  return error.line;
}

describe('defineTask', () => {
  it('makes questions, prompts and continuations of rows of any layout', async () => {
    const task = await defineTask({
      ...spec,
      description: 'About {{topic}}.\n\n',
      continuations: ['the first of {{choices | length}}', 'the second'],
    });
    expect(task).toMatchObject({ name: 'capitals', version: 1, source: 'the task', split: 'all', skipped: [] });
    expect(task.docs[0]).toEqual({
      id: 'capitals-1',
      question: 'What is the capital of France?',
      choices: ['Paris', 'LYON'],
      answer: 0,
      topic: 'Europe',
    });
    const requests = continuationRequests(plain, task, task.docs[1]!, [], { scoring: 'cloze', chat: false });
    expect(requests.map(({ context, continuation }) => [context, continuation])).toEqual([
      ['About South America.\n\nQ: What is the capital of Peru?\nA:', ' the first of 2'],
      ['About South America.\n\nQ: What is the capital of Peru?\nA:', ' the second'],
    ]);
  });

  it('stands after a system prompt, a blank line apart', async () => {
    const task = await defineTask(spec);
    const asked = (system: string, scoring: 'cloze' | 'continuation') =>
      continuationRequests(plain, task, task.docs[1]!, [], { scoring, chat: false, system })[0]!.context;
    expect(asked('Be brief.', 'cloze')).toBe('Be brief.\n\nQ: What is the capital of Peru?\nA:');
    expect(asked('Be brief. ', 'cloze')).toBe('Be brief. Q: What is the capital of Peru?\nA:');
    expect(asked('Be brief.', 'continuation')).toBe('Be brief.Q: What is the capital of Peru?\nA:'); // as it does there
  });

  it('takes options from a list, and the answer as index, letter or text', async () => {
    const row = { question: '2 + 2?', choices: [3, 4, 5] };
    const answers = async (answer: unknown, answer_is?: 'letter' | 'text') => {
      const rows = [{ ...row, answer }];
      return (await defineTask({ name: 't', rows, ...(answer_is && { answer_is }) })).docs[0]!;
    };
    expect(await answers(1)).toMatchObject({ choices: ['3', '4', '5'], answer: 1 });
    expect(await answers('b', 'letter')).toMatchObject({ answer: 1 });
    expect(await answers(4, 'text')).toMatchObject({ answer: 1 });
    await expect(answers(4)).rejects.toThrow('4 is not the index of one of 3 options');
    await expect(answers('six', 'text')).rejects.toThrow('-1 is not the index');
  });

  it('draws examples from rows of their own, or from the others of the task', async () => {
    const more = [{ country: 'Chad', right: 'N’Djamena', wrong: 'Moundou', continent: 'Africa' }];
    expect((await defineTask({ ...spec, examples: more }, { shots: 1 })).fewShot).toMatchObject({
      shots: 1,
      split: 'examples',
      pool: [{ question: 'What is the capital of Chad?' }],
    });
    expect((await defineTask(spec, { shots: 1 })).fewShot).toMatchObject({ split: 'all', pool: [{}, {}] });
    expect((await defineTask(spec)).fewShot).toBeUndefined();
  });

  it('knows the variables of a template from other names', async () => {
    const question =
      '{% set n = namespace(x=1) %}{% for c in [country] %}{{ loop.index }}{{ c | replace("F", n.x | string) }}{% endfor %}' +
      '{{ "yes" if wrong is defined and right != "x" else continent }}';
    const [doc] = (await defineTask({ ...spec, question })).docs;
    expect(doc!.question).toBe('11ranceyes');
  });

  it.each<[string, object, string]>([
    ['an unknown field', { promt: 'x' }, 'Unrecognized key: "promt"; its fields are name, version, rows'],
    ['a template that does not parse', { prompt: '{{question' }, "the task's prompt does not parse"],
    [
      'a variable that rows lack',
      { question: '{{contry}}' },
      'unknown field in the task\'s question "contry"; did you mean country',
    ],
    ['a variable that questions lack', { prompt: '{{country}}' }, 'unknown field in the task\'s prompt "country"'],
    ['a filter that does not exist', { prompt: '{{question | shout}}' }, "the task's prompt fails: "],
    ['rows without options', { choices: 'options' }, 'field "choices"'],
    ['two options alike', { choices: ['{{right}}', '{{right}}'] }, 'has the option "Paris" twice'],
    ['no rows', { rows: [] }, 'rows '],
    [
      'too few continuations',
      { choices: ['a', 'b', 'c'], continuations: ['x', 'y'] },
      'has 3 options, but there are 2',
    ],
  ])('refuses %s', async (_, more, message) => expect(await refusal(more)).toContain(message));
});

describe('a task file', () => {
  it('is loaded by its name, its rows beside it', async () => {
    writeJsonl(path.join(folder, 'rows.jsonl'), [...CAPITALS, { country: 'Nowhere' }]);
    const { name: _, ...rest } = spec;
    fs.writeFileSync(path.join(folder, 'world.json'), JSON.stringify({ ...rest, rows: 'rows.jsonl' }));
    const error: unknown = await loadTask(path.join(folder, 'world.json')).catch((e: unknown) => e);
    expect((error as CalmError).line).toContain('unknown field in world.json\'s choices "right"');
    writeJsonl(path.join(folder, 'rows.jsonl'), CAPITALS);
    const task = await loadTask(path.join(folder, 'world.json'), { limit: 1 });
    expect(task).toMatchObject({ name: 'world', docs: [{ choices: ['Paris', 'LYON'] }] });
    expect(task.source).toBe(path.join(folder, 'rows.jsonl'));
  });

  it.each([
    ['list.json', '[1]', 'holds no JSON object'],
    ['broken.json', '{', 'is not JSON'],
    ['absent.json', undefined, 'absent.json'],
  ])('refuses %s', async (name, content, message) => {
    if (content !== undefined) fs.writeFileSync(path.join(folder, name), content);
    await expect(loadTask(path.join(folder, name))).rejects.toThrow(message);
    await expect(loadTask(path.join(folder, name), { split: 'test' })).rejects.toThrow('without a split');
  });
});
