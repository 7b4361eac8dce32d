import * as fs from 'node:fs';
import * as path from 'node:path';
import { UsageError } from '../base/errors';
import { pick } from '../base/pick';
import { cacheFolder, PACKAGE_ROOT } from '../base/presets';
import { docHash, firstOf, MCQA, questionPrompt, readQuestions, type ChoiceQuestion } from '../data';
import type { Task, TaskOptions } from './types';

const SPLITS = { test: true, validation: true, train: true };

/**
 * The paper's MCQA set of 2,000 training, 1,000 validation and 2,000 test questions as calm-lab has drawn it, by the lists
 * of `datasets/mcqa`. A question's topic is its source.
 * @param options.data holds the rows of the four sources
 * @throws UsageError when some of the listed questions are not among them
 */
export async function loadMixture({ data, split = 'test', limit, shots = 0 }: TaskOptions): Promise<Task> {
  pick('split of mcqa', split, SPLITS);
  const folder = data ?? path.join(cacheFolder(), 'data');
  const sources = MCQA.map(({ name }) => name);
  const absent = sources.filter((name) => !fs.existsSync(path.join(folder, name)));
  if (absent.length > 0) {
    throw new UsageError(`the task mcqa needs the rows of ${absent.join(', ')}`, {
      remedy: `name the folder that holds them with --data DIR (calm fetch ${absent[0]} downloads them)`,
    });
  }
  const found = new Map<string, ChoiceQuestion>();
  for (const name of sources) {
    for (const file of fs.readdirSync(path.join(folder, name)).filter((entry) => entry.endsWith('.jsonl'))) {
      const { questions } = await readQuestions(path.join(folder, name, file), { invalid: 'skip' });
      for (const question of questions) {
        const key = `${name} ${docHash(question)}`;
        const id = `${name}/${path.parse(file).name}/${question.id}`;
        if (!found.has(key)) found.set(key, { ...question, id, topic: name });
      }
    }
  }
  const questions = (part: string) => {
    const listed = readList(part);
    const missing = listed.filter((key) => !found.has(key));
    if (missing.length > 0) {
      const count = `${missing.length} of the ${listed.length} questions of mcqa's split ${part}`;
      const where = [...new Set(missing.map((key) => key.split(' ')[0]))].join(', ');
      throw new UsageError(`${count} are not among the rows of ${where} in ${folder}`, {
        remedy: 'complete those rows, or draw a mixture of your own with mcqaMixture',
      });
    }
    return listed.map((key) => found.get(key)!);
  };
  return {
    name: 'mcqa',
    version: 1,
    source: folder,
    split,
    docs: firstOf(questions(split), limit),
    skipped: [],
    prompt: questionPrompt,
    ...(shots > 0 && { fewShot: { shots, split: 'train', pool: questions('train') } }),
  };
}

/** The questions of a split in the order they are asked: source and `docHash` each. */
function readList(split: string): string[] {
  const file = path.join(PACKAGE_ROOT, 'datasets', 'mcqa', `${split}.txt`);
  return fs.readFileSync(file, 'utf8').trim().split('\n');
}
