import * as fs from 'node:fs';
import * as path from 'node:path';
import { UsageError } from '../base/errors';
import { pick, unknownName } from '../base/pick';
import { PACKAGE_ROOT } from '../base/presets';
import { readQuestions, type ChoiceQuestion } from '../data';
import type { Task } from './types';

interface Recipe {
  version: number;
  /** Splits to look for, the one to test on first. */
  splits: readonly string[];
  prompt: (doc: ChoiceQuestion) => string;
}

const QUESTION = (doc: ChoiceQuestion) => `Question: ${doc.question}\nAnswer:`;
const BARE = (doc: ChoiceQuestion) => doc.question;

/** Multiple-choice tasks by name; their rows are `DATA/<name>/<split>.jsonl`. Prompts are lm-evaluation-harness's. */
const RECIPES: Readonly<Record<string, Recipe>> = {
  starter: { version: 1, splits: ['test', 'validation', 'train'], prompt: QUESTION },
  arc_easy: { version: 1, splits: ['test', 'train'], prompt: QUESTION },
  arc_challenge: { version: 1, splits: ['test', 'dev', 'train'], prompt: QUESTION },
  openbookqa: { version: 1, splits: ['test', 'train'], prompt: BARE },
  hellaswag: { version: 1, splits: ['validation'], prompt: BARE },
  piqa: { version: 1, splits: ['validation'], prompt: QUESTION },
  mmlu: { version: 1, splits: ['test', 'dev'], prompt: QUESTION },
  medmcqa: { version: 1, splits: ['test', 'dev'], prompt: QUESTION },
  mathqa: { version: 1, splits: ['test'], prompt: QUESTION },
  commonsense_qa: { version: 1, splits: ['validation', 'train'], prompt: QUESTION },
};

/** The recipe for a user's own folder of questions. */
const OWN: Recipe = { version: 1, splits: ['test', 'validation', 'dev', 'train'], prompt: QUESTION };

export interface TaskOptions {
  /** Folder that holds `<task>/<split>.jsonl` (or `<task>.jsonl`); the starter questions need none. */
  data?: string;
  split?: string;
  /** The first n questions. */
  limit?: number;
}

/** Names that `loadTask` knows without a data folder's help. */
export function taskNames(): string[] {
  return Object.keys(RECIPES);
}

/**
 * Loads a multiple-choice task: `starter`, a benchmark or a folder of your own under `data`, or one `.jsonl` file.
 * Rows that cannot be used (say, two equal options) are counted in `skipped`, never dropped silently.
 * @throws UsageError for an unknown name (the nearest are suggested), a missing folder or split
 */
export async function loadTask(name: string, options: TaskOptions = {}): Promise<Task> {
  const { file, split, recipe, task } = find(name, options);
  const { questions, skipped } = await readQuestions(file, { limit: options.limit, invalid: 'skip' });
  return { name: task, version: recipe.version, source: file, split, docs: questions, skipped, prompt: recipe.prompt };
}

function find(
  name: string,
  { data, split }: TaskOptions,
): { file: string; split: string; recipe: Recipe; task: string } {
  if (name.endsWith('.jsonl')) {
    return { file: name, split: path.basename(name, '.jsonl'), recipe: OWN, task: path.basename(name, '.jsonl') };
  }
  if (name === 'starter' && data === undefined) {
    const folder = path.join(PACKAGE_ROOT, 'datasets', 'starter', 'mcq');
    return {
      ...splitFile(folder, RECIPES['starter'] as Recipe, split),
      recipe: RECIPES['starter'] as Recipe,
      task: name,
    };
  }
  if (data === undefined) {
    pick('task', name, RECIPES);
    throw new UsageError(`the task ${name} needs its rows`, {
      remedy: `name the folder that holds ${name}/ with --data DIR`,
    });
  }
  if (!fs.existsSync(data)) throw new UsageError(`the data folder ${data} does not exist`, { remedy: 'check --data' });
  if (!fs.statSync(data).isDirectory()) throw new UsageError(`${data} is not a folder`, { remedy: 'check --data' });
  const recipe = RECIPES[name] ?? OWN;
  const folder = path.join(data, name);
  if (fs.existsSync(folder) && fs.statSync(folder).isDirectory()) {
    return { ...splitFile(folder, recipe, split), recipe, task: name };
  }
  const single = path.join(data, `${name}.jsonl`);
  if (fs.existsSync(single)) return { file: single, split: split ?? 'all', recipe, task: name };
  const here = fs.readdirSync(data).map((entry) => entry.replace(/\.jsonl$/, ''));
  if (Object.hasOwn(RECIPES, name)) {
    throw new UsageError(`${data} has no ${name}`, { remedy: `there are: ${here.sort().join(', ') || 'no files'}` });
  }
  throw unknownName('task', name, [...new Set([...here, 'starter'])]);
}

function splitFile(folder: string, recipe: Recipe, split: string | undefined): { file: string; split: string } {
  const there = fs
    .readdirSync(folder)
    .filter((f) => f.endsWith('.jsonl'))
    .map((f) => f.replace(/\.jsonl$/, ''));
  const chosen = split ?? recipe.splits.find((s) => there.includes(s)) ?? there.sort()[0];
  if (chosen === undefined) throw new UsageError(`${folder} has no .jsonl files`);
  if (!there.includes(chosen)) throw unknownName(`split of ${path.basename(folder)}`, chosen, there);
  return { file: path.join(folder, `${chosen}.jsonl`), split: chosen };
}
