import { UsageError } from '../base/errors';
import { firstOf, questionPrompt, readOpenQuestions } from '../data';
import { exactMatch, type ExactMatchOptions } from './generation';
import { readGenerationTask } from './own-task';
import { findTask, type Kind } from './tasks';
import type { GenerationTask, TaskOptions } from './types';

/** What is known of a task, its rows apart. */
interface OpenRecipe extends Pick<GenerationTask, 'version' | 'prompt' | 'description' | 'until' | 'maxNewTokens'> {
  splits: readonly string[];
  exactMatch: ExactMatchOptions;
}

const own: OpenRecipe = {
  version: 1,
  splits: ['test', 'validation', 'dev', 'train'],
  prompt: questionPrompt,
  until: ['\n'],
  maxNewTokens: 32,
  exactMatch: { ignore_case: true, ignore_punctuation: true },
};

const OPEN: Kind<OpenRecipe> = {
  recipes: {
    starter: own,
    // As lm-evaluation-harness 0.4.13 has it.
    nq_open: {
      version: 1,
      splits: ['validation', 'test'],
      description: 'Answer these questions:\n\n',
      prompt: ({ question }) => `Q: ${question}?\nA:`,
      until: ['\n', '.', ','],
      maxNewTokens: 256,
      exactMatch: {
        ignore_case: true,
        ignore_punctuation: true,
        regexes_to_ignore: ['\\b(?:The |the |An |A |The |a |an )'],
      },
    },
    // The form of the closed-book benchmarks of their authors, as `calm eval --samples` needs short answers.
    popqa: { ...own, splits: ['test', 'dev'], maxNewTokens: 16 },
    triviaqa: { ...own, splits: ['validation', 'test', 'dev'], maxNewTokens: 16 },
  },
  own,
  starter: 'open',
};

/**
 * Loads questions to be answered in the model's own words, with all answers that are right: `starter`, a benchmark
 * (`nq_open`), rows `{"question", "answers"}` of your own as for `loadTask`, or a `.json` file that describes a task with
 * `until` (see `defineGenerationTask`).
 * @throws UsageError for an unknown name (the nearest are suggested), a missing folder or split
 */
export async function loadGenerationTask(
  name: string,
  { data, split, limit, shots = 0 }: TaskOptions = {},
): Promise<GenerationTask> {
  if (!Number.isSafeInteger(shots) || shots < 0) throw new UsageError(`shots is ${shots}, not a number of examples`);
  if (name.endsWith('.json')) return readGenerationTask(name, { shots, ...(limit !== undefined && { limit }) });
  const { task, recipe, file, split: found, pool } = findTask(name, data, split, OPEN);
  const { version, prompt, description, until, maxNewTokens, exactMatch: match } = recipe;
  const { questions, skipped } = await readOpenQuestions(file, { invalid: 'skip' });
  const examples = shots > 0 ? await readOpenQuestions(pool.file, { invalid: 'skip' }) : undefined;
  return {
    name: task,
    version,
    source: file,
    split: found,
    docs: firstOf(questions, limit),
    skipped,
    prompt,
    ...(description !== undefined && { description }),
    until,
    maxNewTokens,
    metrics: { exact_match: exactMatch(match) },
    ...(examples && { fewShot: { shots, split: pool.split, pool: examples.questions } }),
  };
}
