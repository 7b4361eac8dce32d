import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { tensorsKept } from '../../src/engine/leaks';
import {
  answersOf,
  defineGenerationTask,
  evaluateGeneration,
  exactMatch,
  generateUntil,
  loadGenerationTask,
  openCache,
  type GenerationTask,
} from '../../src/evaluate';
import { generate } from '../../src/model';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import fixture from '../fixtures/harness/lm-eval.json';
import { temporaryFolder } from '../model/make-files';
import { HAS_SMOL } from '../shared';
import { writeTinyFolder } from './tiny-folder';

const folder = temporaryFolder();
let model: LanguageModel;
beforeAll(async () => {
  setQuiet(true);
  model = await loadModel(writeTinyFolder(path.join(folder, 'tiny')));
});
afterAll(() => model.dispose());

/** The first `count` greedy tokens by themselves. */
const greedy = (context: string, count: number) =>
  generate(model, [model.tokenizer.encode(context)], { maxNewTokens: count })[0]![0]!.ids;

describe('generateUntil', () => {
  it('is the greedy text, cut before the first of the texts that end it', () => {
    const ids = greedy('abc', 12);
    const whole = model.tokenizer.decode(ids);
    const end = [...whole][4]!;
    const [cut, all, short] = generateUntil(model, [
      { context: 'abc', until: [end, 'never this'], maxNewTokens: 12 },
      { context: 'abc', until: ['never this', ''], maxNewTokens: 12 },
      { context: 'abc', until: [], maxNewTokens: 3 },
    ]);
    expect(cut!.text).toBe(whole.split(end)[0]);
    expect(cut!.tokens).toBeLessThanOrEqual(12);
    expect(all).toEqual({ text: whole, tokens: ids.length, truncated: 0 });
    expect(short!.text).toBe(model.tokenizer.decode(ids.slice(0, 3)));
  });

  it('ends at a text that is made of several tokens', () => {
    const whole = model.tokenizer.decode(greedy('xyz', 10));
    const end = whole.slice(3, 6);
    const [cut] = generateUntil(model, [{ context: 'xyz', until: [end], maxNewTokens: 10 }]);
    expect(cut!.text).toBe(whole.slice(0, whole.indexOf(end)));
    expect(cut!.tokens).toBeLessThan(10);
  });

  it('cuts a long context from the left, and refuses what has no room or no tokens', async () => {
    const short = await loadModel(writeTinyFolder(path.join(folder, 'short'), { maxPositions: 8 }));
    const [cut] = generateUntil(short, [{ context: 'abcdefghijkl', until: [], maxNewTokens: 3 }]);
    const kept = short.tokenizer.encode('abcdefghijkl').slice(-5);
    expect(cut!.truncated).toBe(short.tokenizer.encode('abcdefghijkl').length - 5);
    expect(cut!.text).toBe(short.tokenizer.decode(generate(short, [kept], { maxNewTokens: 3 })[0]![0]!.ids));
    expect(() => generateUntil(short, [{ context: 'a', until: [], maxNewTokens: 8 }])).toThrow('no room for a prompt');
    short.dispose();
    expect(generateUntil(model, [])).toEqual([]);
  });

  it('keeps no tensors', async () => {
    const requests = [{ context: 'abc', until: ['e'], maxNewTokens: 4 }];
    expect(await tensorsKept(() => generateUntil(model, requests))).toBe(0);
  });

  it('finds in the cache what was asked with the same ends only', () => {
    const where = path.join(folder, 'cache');
    const ask = (cache: ReturnType<typeof openCache>, until: string[]) =>
      generateUntil(model, [{ context: 'abc', until, maxNewTokens: 6 }], { cache })[0]!;
    const first = ask(openCache(model, where), []);
    const again = openCache(model, where);
    expect([ask(again, []), again.size]).toEqual([first, 1]);
    expect(ask(again, [first.text[2]!]).text).toBe(first.text.split(first.text[2]!)[0]);
    expect(again.size).toBe(2);
  });
});

describe('answersOf', () => {
  it('asks in words what the functions ask in tokens', () => {
    const answers = answersOf(model);
    const [pair] = answers.loglikelihood([{ context: 'ab', continuation: 'cd' }]);
    expect(pair!.tokenLogProbs).toHaveLength(2);
    expect(answers.loglikelihood_rolling(['abcd'])[0]).toBeLessThan(0);
    expect(answers.generate_until([{ context: 'abc', until: [], maxNewTokens: 5 }])).toEqual([
      model.tokenizer.decode(greedy('abc', 5)),
    ]);
  });
});

describe('exactMatch', () => {
  const doc = (...answers: string[]) => ({ id: '1', question: '?', answers });

  // By lm-evaluation-harness 0.4.13's exact_match_hf_evaluate, white space at the ends taken off first.
  it.each([
    ['Paris', ['Paris'], {}, 1],
    [' Paris\n', ['Paris'], {}, 1],
    ['paris', ['Paris'], {}, 0],
    ['paris', ['Paris'], { ignore_case: true }, 1],
    ['Paris.', ['Paris'], {}, 0],
    ['Paris!?', ['Par-is'], { ignore_punctuation: true }, 1],
    ['“Paris”', ['Paris'], { ignore_punctuation: true }, 0],
    ['B52', ['B'], { ignore_numbers: true }, 1],
    ['the Pacific', ['Pacific Ocean', 'Pacific'], { regexes_to_ignore: ['\\bthe '] }, 1],
    ['The Pacific', ['pacific'], { ignore_case: true, regexes_to_ignore: ['\\bthe '] }, 0],
    ['', ['Paris'], {}, 0],
  ])('%j of %j with %o is %i', (answer, answers, options, value) => {
    expect(exactMatch(options)(answer, doc(...answers))).toBe(value);
  });

  it('refuses a pattern that is none', () => {
    expect(() => exactMatch({ regexes_to_ignore: ['('] })).toThrow('"(" is not a regular expression');
  });
});

describe('evaluateGeneration', () => {
  const docs = ['abc', 'bcd', 'cde', 'def'].map((question, i) => ({ id: String(i), question, answers: ['nothing'] }));
  const task: GenerationTask = {
    name: 'open',
    version: 2,
    source: 'here',
    split: 'test',
    docs,
    skipped: [{ line: 9, reason: 'odd' }],
    prompt: ({ question }) => question,
    until: [],
    maxNewTokens: 4,
  };

  it('gives each answer, and each metric with its error and interval', () => {
    const answers = docs.map(({ question }) => model.tokenizer.decode(greedy(question, 4)).trim());
    const right = { ...task, docs: docs.map((doc, i) => ({ ...doc, answers: [i < 3 ? answers[i]! : 'other'] })) };
    const length = (answer: string) => answer.length;
    const match = exactMatch();
    const result = evaluateGeneration(model, { ...right, metrics: { exact_match: match, length } });
    expect(result).toMatchObject({ task: 'open', task_version: 2, scoring: 'generate', n: 4, skipped: 1, shots: 0 });
    expect(result.rows.map(({ answer }) => answer)).toEqual(answers);
    expect(result.rows.map(({ scores }) => scores['exact_match'])).toEqual([1, 1, 1, 0]);
    const { value, stderr, interval } = result.metrics['exact_match']!;
    expect(value).toBe(0.75);
    expect(stderr).toBeCloseTo(0.25, 12); // sqrt(0.75 * 0.25 / (n - 1))
    expect(interval![0]).toBeLessThan(0.75);
    expect(result.metrics['length']!.value).toBeCloseTo(answers.reduce((sum, a) => sum + a.length, 0) / 4, 12);
  });

  it('shows examples with their first answer, never the question itself', () => {
    const fewShot = { shots: 2, split: 'train', pool: docs.map((doc) => ({ ...doc, answers: ['yes', 'no'] })) };
    const seen: string[] = [];
    const prompt = ({ question }: { question: string }) => `Q ${question}\nA:`;
    const watched = { ...task, prompt, fewShot };
    const encode = model.tokenizer.encode.bind(model.tokenizer);
    const tokenizer = { ...model.tokenizer, encode: (text: string) => (seen.push(text), encode(text)) };
    Object.setPrototypeOf(tokenizer, Object.getPrototypeOf(model.tokenizer) as object);
    evaluateGeneration({ ...model, tokenizer } as LanguageModel, watched, { resamples: 0 });
    expect(seen).toHaveLength(4);
    seen.forEach((text, i) => {
      const questions = [...text.matchAll(/Q (...)\nA:/g)].map(([, question]) => question);
      expect(questions).toHaveLength(3);
      expect(questions.at(-1)).toBe(docs[i]!.question);
      expect(new Set(questions).size).toBe(3);
      expect(text.match(/A: yes\n\n/g)).toHaveLength(2);
    });
  });

  it('refuses a task without questions', () => {
    expect(() => evaluateGeneration(model, { ...task, docs: [] })).toThrow('open has no usable questions');
  });
});

describe('tasks that are answered in words', () => {
  it('come with calm-lab, or from rows with answers', async () => {
    const starter = await loadGenerationTask('starter', { limit: 2, shots: 1 });
    expect(starter).toMatchObject({ name: 'starter', split: 'test', until: ['\n'], fewShot: { split: 'train' } });
    expect(starter.prompt(starter.docs[0]!)).toBe(`Question: ${starter.docs[0]!.question}\nAnswer:`);
    const file = path.join(folder, 'mine.jsonl');
    fs.writeFileSync(file, '{"question":"a","answers":["b"]}\n{"question":"no answers"}\n');
    expect(await loadGenerationTask(file)).toMatchObject({
      name: 'mine',
      docs: [{ question: 'a' }],
      skipped: [{ line: 2 }],
    });
    await expect(loadGenerationTask('starter', { shots: -1 })).rejects.toThrow('shots is -1');
    await expect(loadGenerationTask('nq_opne')).rejects.toThrow('unknown task "nq_opne"');
  });

  it('or from rows of any layout, described in an object or a JSON file', async () => {
    const rows = [
      { land: 'France', stadt: 'Paris', also: ['Paris', 'Lutetia'] },
      { land: 'Peru', stadt: 'Lima', also: [] },
    ];
    const spec = { name: 'capitals', rows, question: 'What is the capital of {{land}}?', until: ['\n'] };
    const listed = await defineGenerationTask({ ...spec, answers: 'also' });
    expect(listed.docs).toMatchObject([{ question: 'What is the capital of France?', answers: ['Paris', 'Lutetia'] }]);
    expect(listed.skipped).toEqual([{ line: 2, reason: 'field "answers": is empty' }]);
    const match = { ignore_case: true };
    const more = { answers: '{{stadt}}', prompt: 'Q: {{question}}\nA:', max_new_tokens: 8, exact_match: match };
    const file = path.join(folder, 'capitals.json');
    fs.writeFileSync(file, JSON.stringify({ ...spec, ...more }));
    const task = await loadGenerationTask(file);
    expect(task).toMatchObject({
      name: 'capitals',
      maxNewTokens: 8,
      docs: [{ answers: ['Paris'] }, { answers: ['Lima'] }],
    });
    expect(task.prompt(task.docs[1]!)).toBe('Q: What is the capital of Peru?\nA:');
    expect(task.metrics!['exact_match']!('LIMA', task.docs[1]!)).toBe(1);
  });

  it.each([
    [{ until: [] }, 'the task: until Too small'],
    [{ answer: 'x' }, 'its fields are name, version, rows, question'],
    [{ exact_match: { case: true } }, 'exact_match Unrecognized key'],
    [{ question: '{{country}}' }, 'country'],
  ])('refuse %o', async (change, message) => {
    const spec = { name: 'x', rows: [{ question: 'a', answers: ['b'] }], until: ['\n'], ...change };
    await expect(defineGenerationTask(spec as never)).rejects.toThrow(
      expect.objectContaining({ line: expect.stringContaining(message) as string }) as Error,
    );
  });
});

// What lm-evaluation-harness itself generated for rows written for this project (record_harness.py).
describe.skipIf(!HAS_SMOL)('SmolLM2 on nq_open', () => {
  it('generates what it does there, and the exact match is the same', async () => {
    const smol = await loadModel('smollm2-135m-instruct');
    const task = await loadGenerationTask('nq_open', { data: path.join(__dirname, '../fixtures/harness') });
    const { rows, metrics } = evaluateGeneration(smol, task, { resamples: 0 });
    const { docs, exact_match, exact_match_stderr } = fixture.nq_open;
    expect(task.docs.map((doc) => task.description! + task.prompt(doc))).toEqual(docs.map(({ context }) => context));
    expect(rows.map(({ answer }) => answer)).toEqual(docs.map(({ text }) => text.trim()));
    expect(rows.map(({ scores }) => scores['exact_match'])).toEqual(docs.map((doc) => doc.exact_match));
    expect(metrics['exact_match']!.value).toBe(exact_match);
    expect(metrics['exact_match']!.stderr).toBeCloseTo(exact_match_stderr, 12);
    smol.dispose();
  });
});
