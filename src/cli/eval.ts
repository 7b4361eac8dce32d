import type { Command } from 'commander';
import * as path from 'node:path';
import { CalmError, someOf, UsageError } from '../base/errors';
import { readJson } from '../base/files';
import { POSTHOC, posthocFromJson } from '../calibrate/posthoc';
import { calibrationFromJson } from '../calibrate/temperature';
import type { GenerationRow, OpenRow, ResponseCache, Result, Row, TextRow } from '../evaluate';
import type { LanguageModel } from '../pretrained';
import { resultsTable, toMarkdown } from '../report/table';
import { loadWithAdapter, naming } from './rows';
import {
  checkWritable,
  countOrShare,
  finish,
  integer,
  list,
  MOST_BINS,
  number,
  oneOf,
  withModel,
  type ModelOptions,
} from './options';

type AnyResult = Result<Row | TextRow | GenerationRow | OpenRow>;

interface Options extends ModelOptions {
  tasks: string[];
  out: string;
  data?: string;
  split?: string;
  limit?: number;
  shots: number;
  scoring: Exclude<Result['scoring'], 'semantic'>;
  normalisation: 'none' | 'token' | 'byte';
  truncation: 'count' | 'error';
  samples?: number;
  temperature: number;
  topP: number;
  maxNewTokens?: number;
  equivalence: 'normalised' | 'f1' | 'embedding';
  linkage: 'complete' | 'components';
  correct: 'contains' | 'exact' | 'f1';
  chat?: true | 'multiturn';
  system?: string;
  calibration?: string;
  bins: number;
  resamples: number;
  seed: number;
  batchTokens: number;
  /** true unless something is said. */
  cache: string | boolean;
  json?: boolean;
}

export function evaluateTasks(calm: Command): void {
  withModel(calm.command('eval').description('Ask a model the questions of tasks; measure accuracy and calibration'))
    .requiredOption('--tasks <names>', 'tasks separated by commas, or .jsonl files of questions', list)
    .requiredOption('--out <folder>', 'where results.json and rows.jsonl go')
    .option('--data <folder>', 'folder that holds <task>/<split>.jsonl')
    .option('--split <name>', 'the split to ask; by default the one to test on')
    .option('--limit <n>', 'the first n questions of each task; below 1, that share of them', countOrShare)
    .option('--shots <k>', 'worked examples before each question, from another split where there is one', integer(0), 0)
    .option(
      '--scoring <way>',
      'letter, cloze, continuation; generate for questions with "answers" in the model\'s own words; ' +
        'rolling for the perplexity of .txt files and rows with a "text"',
      oneOf(['letter', 'cloze', 'continuation', 'generate', 'rolling']),
      'letter',
    )
    .option(
      '--normalisation <by>',
      'of a score by cloze or continuation: none, token or byte',
      oneOf(['none', 'token', 'byte']),
      'none',
    )
    .option(
      '--samples <k>',
      'answers to each open question, clustered by meaning: their frequency is the confidence',
      integer(2, 1000),
    )
    .option('--temperature <t>', 'of the samples', number(1e-6), 1)
    .option('--top-p <p>', 'sample from the likeliest tokens that reach this probability', number(0, 1), 1)
    .option('--max-new-tokens <n>', 'the most tokens of a sample; by default what the task says', integer(1))
    .option(
      '--equivalence <rule>',
      'when answers mean the same: by their normalised text, f1 of their words, or embedding (MiniLM)',
      oneOf(['normalised', 'f1', 'embedding']),
      'normalised',
    )
    .option(
      '--linkage <rule>',
      'complete: every two of a cluster mean the same; or components',
      oneOf(['complete', 'components']),
      'complete',
    )
    .option(
      '--correct <rule>',
      'when an answer is right: it contains, is exactly, or by f1 is one of those listed',
      oneOf(['contains', 'exact', 'f1']),
      'contains',
    )
    .option('--truncation <what>', 'of prompts beyond the context: count or error', oneOf(['count', 'error']), 'count')
    .option(
      '--chat [multiturn]',
      "put questions into the model's chat template; examples too, or as turns",
      oneOf(['multiturn']),
    )
    .option('--system <text>', 'what stands before everything; in a chat, the message of the system')
    .option('--calibration <file>', 'apply a temperature or another calibrator, as "calm fit --out" writes it')
    .option('--bins <n>', 'bins of the reliability diagram and the ECEs', integer(1, MOST_BINS), 10)
    .option('--resamples <n>', 'bootstrap resamples behind the intervals; 0 for none', integer(0, 1_000_000), 1000)
    .option('--seed <s>', 'seed of the examples and of the resampling', integer(0), 0)
    .option('--batch-tokens <n>', 'tokens computed at once; bounds memory, changes no result', integer(1), 2048)
    .option('--cache <folder>', "where the model's answers are kept and looked up; by default in the project's cache")
    .option('--no-cache', 'keep no answers')
    .option('--json', 'print one JSON object')
    .action(async ({ tasks: names, calibration, out, ...options }: Options) => {
      const {
        evaluate,
        evaluateGeneration,
        evaluateTexts,
        loadGenerationTask,
        loadTask,
        loadTexts,
        openCache,
        semanticCalibration,
        withPosthoc,
        withTemperature,
        writeResults,
      } = await import('../index.js');
      const { scoring, bins, resamples } = options;
      if (
        scoring === 'rolling' &&
        (calibration || options.chat !== undefined || options.system !== undefined || options.shots > 0)
      ) {
        throw new UsageError('a perplexity has no examples, chat template, system prompt or temperature', {
          remedy: 'leave out --shots, --chat, --system and --calibration',
        });
      }
      if (options.normalisation !== 'none' && (scoring === 'rolling' || scoring === 'generate')) {
        throw new UsageError('--normalisation is of cloze and continuation scores', { remedy: 'leave it out' });
      }
      if (options.samples !== undefined && (calibration || !['letter', 'generate'].includes(scoring))) {
        throw new UsageError("--samples is of questions that are answered in the model's own words", {
          remedy: 'leave out --scoring and --calibration',
        });
      }
      if (scoring === 'generate' && calibration) {
        throw new UsageError('a temperature changes nothing of greedy answers', { remedy: 'leave out --calibration' });
      }
      const json = calibration && readJson(calibration);
      const calibrated = calibration ? naming(calibration, () => calibratorOf(json)) : undefined;
      const runs: {
        name: string;
        run: (model: LanguageModel, cache?: ResponseCache) => Promise<AnyResult> | AnyResult;
      }[] = [];
      for (const file of names) {
        if (scoring === 'rolling') {
          const task = await loadTexts(file, options);
          runs.push({ name: task.name, run: (model, cache) => evaluateTexts(model, task, { ...options, cache }) });
        } else if (options.samples !== undefined) {
          const { samples, temperature, topP, maxNewTokens, linkage, correct: rule, seed, chat, system } = options;
          const equivalence = await equivalenceOf(options.equivalence);
          const task = await loadGenerationTask(file, options);
          const how = { samples, temperature, topP, maxNewTokens, equivalence, linkage, rule, bins, resamples, seed, chat, system }; // prettier-ignore
          runs.push({ name: task.name, run: (model, cache) => semanticCalibration(model, task, { ...how, cache }) });
        } else if (scoring === 'generate') {
          const task = await loadGenerationTask(file, options);
          runs.push({ name: task.name, run: (model, cache) => evaluateGeneration(model, task, { ...options, cache }) });
        } else {
          const task = await loadTask(file, options);
          runs.push({
            name: task.name,
            run: async (model, cache) => {
              const result = await evaluate(model, task, { ...options, scoring, cache });
              if (!calibrated) return result;
              return calibrated.method === 'temperature'
                ? withTemperature(result, calibrated.applied_temperature, { bins, resamples })
                : withPosthoc(result, calibrated, { bins, resamples });
            },
          });
        }
        // Rows and tables tell tasks apart by name.
        const { name } = runs.at(-1)!;
        if (runs.some((other, i) => i < runs.length - 1 && other.name === name)) {
          throw new UsageError(`two tasks are called ${name}`);
        }
      }
      for (const file of ['results.json', 'rows.jsonl']) checkWritable(path.join(out, file));
      const model = await loadWithAdapter(options);
      const results: AnyResult[] = [];
      const { cache: kept } = options;
      const cache = kept === false ? undefined : openCache(model, typeof kept === 'string' ? kept : undefined);
      for (const { run } of runs) results.push(await run(model, cache));
      cache?.close();
      writeResults(out, results);
      const summary = results.map(({ rows: _rows, ...rest }) => rest);
      finish(
        options,
        { out, results: summary },
        `${toMarkdown(resultsTable(results))}\n\n${remarks(results)}${path.join(out, 'results.json')}, ${path.join(out, 'rows.jsonl')}`,
      );
    });
}

/** The cosine of MiniLM's embeddings of question and answer from which two answers mean the same (`datasets/semantic-pairs`). */
const SAME = 0.97;

/** A rule of what means the same; without the model that one needs, that of the texts, and a note. */
async function equivalenceOf(name: Options['equivalence']) {
  const { embedding, loadEmbedder, normalised, tokenF1 } = await import('../index.js');
  if (name !== 'embedding') return name === 'f1' ? tokenF1() : normalised;
  try {
    const { embed, name: model } = await loadEmbedder();
    return embedding({ embed, model, threshold: SAME, phrase: (question, answer) => `${question} ${answer}` });
  } catch (error) {
    if (!(error instanceof CalmError)) throw error;
    process.stderr.write(`note: answers are compared by their normalised texts: ${error.line}\n`);
    return normalised;
  }
}

/** A temperature, or one of its relatives. */
function calibratorOf(json: unknown) {
  const method = typeof json === 'object' && json !== null && 'method' in json ? json.method : undefined;
  return typeof method === 'string' && Object.hasOwn(POSTHOC, method)
    ? posthocFromJson(json)
    : calibrationFromJson(json);
}

/** What a reader of the table should know of items that were cut or left out. */
function remarks(results: readonly AnyResult[]): string {
  const lines = results.flatMap(({ task, scoring, skipped, truncated, excluded, ties, rows }) => {
    const cut = rows.flatMap((row) => ('truncated' in row && row.truncated > 0 ? [row.doc_id] : []));
    const why = excluded.map(({ doc_id, reason }) => `${doc_id} (${reason})`);
    return [
      ...(skipped > 0 ? [`${task}: ${skipped} rows of the file are not usable questions and were left out`] : []),
      ...(truncated > 0
        ? [`${task}: the prompts of ${truncated} questions were cut from the left: ${someOf(cut)}`]
        : []),
      ...(why.length > 0 ? [`${task}: ${why.length} questions have no score and were left out: ${someOf(why)}`] : []),
      ...(ties > 0
        ? [
            `${task}: ${ties} questions have two ${scoring === 'semantic' ? 'largest clusters of one size' : 'highest scores alike'}; the first of them was taken`,
          ]
        : []),
    ];
  });
  return lines.map((line) => `${line}\n`).join('');
}
