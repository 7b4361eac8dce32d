import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors';
import type { ChoiceQuestion } from '../../src/data';
import { Random } from '../../src/engine/random';
import { loadTask, type Task } from '../../src/evaluate';
import { drawExamples, poolSplit } from '../../src/evaluate/few-shot';
import { temporaryFolder } from '../model/make-files';
import { writeJsonl } from './tiny-folder';

const question = (name: string, more: Partial<ChoiceQuestion> = {}): ChoiceQuestion => ({
  id: name,
  question: `What is ${name}?`,
  choices: ['this', 'that'],
  answer: 0,
  ...more,
});
const many = Array.from({ length: 50 }, (_, i) => question(`thing ${i}`));
const draw = (
  docs: readonly ChoiceQuestion[],
  shots: number,
  pool: readonly ChoiceQuestion[],
  seed = 1,
  firstOfTopic = false,
) => {
  const task: Task = {
    name: 'mine',
    version: 1,
    source: '',
    split: 'test',
    docs,
    skipped: [],
    prompt: () => '',
    fewShot: { shots, split: 'train', pool, firstOfTopic },
  };
  return drawExamples(task, Random.seed(seed).stream('few-shot'));
};

describe('drawExamples', () => {
  it('E-17: never shows the item itself, in a test-only task of three', () => {
    const three = many.slice(0, 3);
    draw(three, 2, three).forEach((examples, i) => {
      const others = three.filter((_, j) => j !== i).map((doc) => doc.id);
      expect(examples.map((doc) => doc.id).sort()).toEqual(others);
    });
  });

  it('E-17: goes by content, whatever the id, case, white space and options', () => {
    const doc = question('iron');
    const alike = [
      question('iron', { id: 'other' }),
      question('iron', { question: ' what is  IRON' }),
      question('iron', { choices: ['other', 'options'] }),
    ];
    expect(draw([doc], 1, [...alike, question('gold')])[0]!.map((d) => d.id)).toEqual(['gold']);
    expect(() => draw([doc], 1, alike)).toThrow('1 examples cannot be drawn from the 0 other questions');
    const sameWords = question('iron', { id: 'x', passage: 'Of another text.' }); // another question then
    expect(draw([doc], 1, [sameWords])[0]!.map((d) => d.id)).toEqual(['x']);
  });

  it('E-17: counts duplicates in the pool once', () => {
    const twice = [question('a'), question('a', { id: 'again' }), question('b')];
    expect(
      draw([question('c')], 2, twice)[0]!
        .map((d) => d.id)
        .sort(),
    ).toEqual(['a', 'b']);
    expect(() => draw([question('c')], 3, twice)).toThrow(UsageError);
    expect(() => draw([question('c')], 3, twice)).toThrow('mine: 3 examples cannot be drawn from the 2 other');
  });

  it('depends on the seed and the question, not on its neighbours', () => {
    const docs = [question('x'), question('y'), question('z')];
    const all = draw(docs, 5, many);
    expect(draw([docs[2]!], 5, many)).toEqual([all[2]]);
    expect(draw(docs, 5, many, 2)).not.toEqual(all);
    expect(all[0]).not.toEqual(all[1]);
    for (const examples of all) expect(new Set(examples).size).toBe(5);
  });

  it('draws every example of the pool about as often', () => {
    const docs = Array.from({ length: 1000 }, (_, i) => question(`asked ${i}`));
    const counts = new Map<string, number>();
    for (const { id } of draw(docs, 5, many).flat()) counts.set(id, (counts.get(id) ?? 0) + 1);
    // 5000 draws of 50: 100 each, with a standard deviation below 10.
    for (const { id } of many) expect(Math.abs(counts.get(id)! - 100)).toBeLessThan(50);
  });

  it('takes the first ones of the topic, but for the question itself, where that is the custom', () => {
    const about = (topic: string, ...names: string[]) => names.map((name) => question(name, { topic }));
    const pool = [...about('a', 'a1', 'a2', 'a3'), ...about('b', 'b1')];
    const drawn = (doc: ChoiceQuestion, shots: number) => draw([doc], shots, pool, 1, true)[0]!.map(({ id }) => id);
    expect(drawn(question('new', { topic: 'a' }), 2)).toEqual(['a1', 'a2']);
    expect(drawn(question('a1', { topic: 'a' }), 2)).toEqual(['a2', 'a3']);
    expect(() => drawn(question('new', { topic: 'b' }), 2)).toThrow(
      'from the 1 other questions of the split train about b',
    );
  });

  it('draws none for a task without examples', () => {
    expect(draw(many.slice(0, 2), 0, [])).toEqual([[], []]);
  });
});

describe('the pool of a task', () => {
  it('is train, else validation, else dev, else the split that is asked', () => {
    expect(poolSplit(['dev', 'test', 'train', 'validation'], 'test')).toBe('train');
    expect(poolSplit(['dev', 'test', 'validation'], 'test')).toBe('validation');
    expect(poolSplit(['dev', 'test'], 'test')).toBe('dev');
    expect(poolSplit(['train', 'test'], 'train')).toBe('train');
    expect(poolSplit(['train', 'validation'], 'train')).toBe('validation');
    expect(poolSplit(['test', 'other'], 'other')).toBe('other');
  });

  it('is read whole, whatever the limit of the questions that are asked', async () => {
    const data = temporaryFolder();
    writeJsonl(path.join(data, 'own', 'test.jsonl'), many.slice(0, 10));
    const alone = await loadTask('own', { data, limit: 1, shots: 3 });
    expect(alone).toMatchObject({ docs: [many[0]], fewShot: { shots: 3, split: 'test' } });
    expect(alone.fewShot!.pool).toHaveLength(10);
    writeJsonl(path.join(data, 'own', 'train.jsonl'), many.slice(20));
    expect((await loadTask('own', { data, shots: 3 })).fewShot).toMatchObject({ split: 'train', pool: many.slice(20) });
    expect((await loadTask('own', { data })).fewShot).toBeUndefined();
    expect((await loadTask('starter', { shots: 2 })).fewShot!.split).toBe('train');
  });
});
