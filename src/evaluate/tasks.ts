import * as fs from 'node:fs';
import * as path from 'node:path';
import { UsageError } from '../base/errors';
import { pick, unknownName } from '../base/pick';
import { cacheFolder, PACKAGE_ROOT } from '../base/presets';
import { firstOf, readQuestions } from '../data';
import { poolSplit } from './few-shot';
import { loadMixture } from './mixture-task';
import { readTask } from './own-task';
import { OWN, RECIPES, type Recipe } from './recipes';
import type { Task, TaskOptions } from './types';

/** Names that `loadTask` knows without a data folder's help. */
export function taskNames(): string[] {
  return Object.keys(RECIPES);
}

/**
 * Loads a multiple-choice task: `starter`, a benchmark, `mcqa` (the paper's mixture of four of them) or a folder of your
 * own under `data`, one `.jsonl` file, or a `.json` file that describes one (see `defineTask`).
 * Rows that cannot be used (say, two equal options) are counted in `skipped`, never dropped silently.
 * @throws UsageError for an unknown name (the nearest are suggested), a missing folder or split
 */
export async function loadTask(name: string, options: TaskOptions = {}): Promise<Task> {
  const { data, split, limit, shots = 0 } = options;
  if (!Number.isSafeInteger(shots) || shots < 0) throw new UsageError(`shots is ${shots}, not a number of examples`);
  if (name === 'mcqa' && !(data !== undefined && fs.existsSync(path.join(data, name)))) {
    return loadMixture(options);
  }
  if (name.endsWith('.json') && split === undefined)
    return readTask(name, { shots, ...(limit !== undefined && { limit }) });
  const { task, recipe, ...found } = findTask(name, data, split, CHOICES);
  const { convert, version, prompt, continuations, description, harness, firstOfTopic = false } = recipe;
  const reading = { invalid: 'skip', ...(convert && { convert }) } as const;
  const share = limit !== undefined && limit > 0 && limit < 1;
  const { questions, skipped } = await readQuestions(found.file, { ...reading, limit: share ? undefined : limit });
  const loaded: Task = {
    name: task,
    version,
    source: found.file,
    split: found.split,
    docs: firstOf(questions, limit),
    skipped,
    prompt,
    ...(continuations && { continuations }),
    ...(description && { description }),
    ...(harness && { harness }),
  };
  if (shots === 0) return loaded;
  const pool = await readQuestions(found.pool.file, reading);
  return { ...loaded, fewShot: { shots, split: found.pool.split, pool: pool.questions, firstOfTopic } };
}

interface Split {
  file: string;
  split: string;
}

interface Rows extends Split {
  /** Where examples come from. */
  pool: Split;
}

interface Found<R> extends Rows {
  task: string;
  recipe: R;
}

/** What is known of the tasks of one kind, where a `Recipe` says how to read their rows. */
export interface Kind<R extends Pick<Recipe, 'splits' | 'folder'>> {
  recipes: Readonly<Record<string, R>>;
  /** For a user's own folder. */
  own: R;
  /** The folder of starter questions. */
  starter: string;
}

export const CHOICES: Kind<Recipe> = { recipes: RECIPES, own: OWN, starter: 'mcq' };

/** Where the rows of a task are, see `loadTask`. */
export function findTask<R extends Pick<Recipe, 'splits' | 'folder'>>(
  name: string,
  data: string | undefined,
  split: string | undefined,
  kind: Kind<R>,
): Found<R> {
  const recipe = (Object.hasOwn(kind.recipes, name) && kind.recipes[name]) || kind.own;
  const file = (at: string, task: string) => ({ ...single(at, split), task, recipe });
  if (/\.jsonl?$/.test(name)) return file(name, path.basename(name, '.jsonl'));
  if (data === undefined && name !== 'starter') {
    const { folder = name } = pick('task', name, kind.recipes);
    const fetched = path.join(cacheFolder(), 'data');
    if (fs.existsSync(path.join(fetched, folder))) return findTask(name, fetched, split, kind);
    throw new UsageError(`the task ${name} needs its rows`, {
      remedy: `name the folder that holds ${name}/ with --data DIR (calm fetch ${name} downloads it)`,
    });
  }
  if (data !== undefined) {
    const isFolder = (where: string) => fs.existsSync(where) && fs.statSync(where).isDirectory();
    if (!fs.existsSync(data))
      throw new UsageError(`the data folder ${data} does not exist`, { remedy: 'check --data' });
    if (!isFolder(data)) throw new UsageError(`${data} is not a folder`, { remedy: 'check --data' });
    const folder = path.join(data, recipe.folder ?? name);
    if (isFolder(folder)) return { ...ofFolder(folder, name, split, recipe), task: name, recipe };
    if (fs.existsSync(`${folder}.jsonl`)) return file(`${folder}.jsonl`, name);
    const here = fs.readdirSync(data).map((entry) => entry.replace(/\.jsonl$/, ''));
    if (name !== 'starter') {
      const unknown = unknownName(`task of ${data}`, name, [...new Set([...here, 'starter'])]);
      if (!Object.hasOwn(kind.recipes, name)) throw unknown;
      throw new UsageError(unknown.message, {
        remedy: `${unknown.remedy}; calm fetch ${name} --data ${data} downloads its rows`,
      });
    }
  }
  const starter = path.join(PACKAGE_ROOT, 'datasets', 'starter', kind.starter);
  return { ...ofFolder(starter, name, split, recipe), task: name, recipe };
}

/** A task that is one file, without splits. */
function single(file: string, split: string | undefined): Rows {
  if (split !== undefined) {
    throw new UsageError(`${file} is one file, without a split "${split}"`, { remedy: 'leave the split out' });
  }
  const all = { file, split: 'all' };
  return { ...all, pool: all };
}

/** A task that is a folder with a file for each split. */
function ofFolder(folder: string, task: string, split: string | undefined, { splits }: Pick<Recipe, 'splits'>): Rows {
  const there = fs
    .readdirSync(folder)
    .filter((f) => f.endsWith('.jsonl'))
    .map((f) => f.replace(/\.jsonl$/, ''))
    .sort();
  const chosen = split ?? [...splits, ...OWN.splits].find((s) => there.includes(s)) ?? there[0];
  if (chosen === undefined) throw new UsageError(`${folder} has no .jsonl files`);
  if (!there.includes(chosen)) throw unknownName(`split of ${task}`, chosen, there);
  const of = (name: string): Split => ({ file: path.join(folder, `${name}.jsonl`), split: name });
  return { ...of(chosen), pool: of(poolSplit(there, chosen)) };
}
