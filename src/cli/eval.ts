import type { Command } from 'commander';
import * as path from 'node:path';
import { readJson } from '../base/files';
import { calibrationFromJson } from '../calibrate';
import type { Result } from '../evaluate';
import { resultsTable, toMarkdown } from '../report/table';
import { naming } from './rows';
import { finish, integer, list, oneOf } from './options';

interface Options {
  model: string;
  tasks: string[];
  out: string;
  data?: string;
  split?: string;
  limit?: number;
  scoring: 'letter' | 'cloze' | 'continuation';
  normalisation: 'none' | 'token' | 'byte';
  chat?: boolean;
  calibration?: string;
  bins: number;
  resamples: number;
  seed: number;
  batchTokens: number;
  json?: boolean;
}

export function evaluateTasks(calm: Command): void {
  calm
    .command('eval')
    .description('Ask a model the questions of tasks; measure accuracy and calibration')
    .requiredOption('--model <model>', 'preset, .gguf file, or folder in Hugging Face layout')
    .requiredOption('--tasks <names>', 'tasks separated by commas, or .jsonl files of questions', list)
    .requiredOption('--out <folder>', 'where results.json and rows.jsonl go')
    .option('--data <folder>', 'folder that holds <task>/<split>.jsonl')
    .option('--split <name>', 'the split to ask; by default the one to test on')
    .option('--limit <n>', 'the first n questions of each task', integer(1))
    .option('--scoring <way>', 'letter, cloze or continuation', oneOf(['letter', 'cloze', 'continuation']), 'letter')
    .option('--normalisation <by>', 'of a cloze score: none, token or byte', oneOf(['none', 'token', 'byte']), 'none')
    .option('--chat', "put questions into the model's chat template")
    .option('--calibration <file>', 'apply a temperature, as "calm fit temperature --out" writes it')
    .option('--bins <n>', 'bins of the reliability diagram and the ECEs', integer(1), 10)
    .option('--resamples <n>', 'bootstrap resamples behind the intervals; 0 for none', integer(0), 1000)
    .option('--seed <s>', 'seed of the resampling', integer(0), 0)
    .option('--batch-tokens <n>', 'tokens computed at once; bounds memory, changes no result', integer(1), 1024)
    .option('--json', 'print one JSON object')
    .action(async ({ tasks: names, calibration, out, ...options }: Options) => {
      const { evaluate, loadModel, loadTask, withTemperature, writeResults } = await import('../index.js');
      const tasks = [];
      for (const name of names) tasks.push(await loadTask(name, options));
      const json = calibration && readJson(calibration);
      const fitted = calibration && naming(calibration, () => calibrationFromJson(json));
      const model = await loadModel(options.model);
      const results: Result[] = [];
      for (const task of tasks) {
        const result = await evaluate(model, task, options);
        results.push(fitted ? withTemperature(result, fitted.applied_temperature, options) : result);
      }
      writeResults(out, results);
      const summary = results.map(({ rows: _rows, ...rest }) => rest);
      finish(
        options,
        { out, results: summary },
        `${toMarkdown(resultsTable(results))}\n\n${remarks(results)}${path.join(out, 'results.json')}, ${path.join(out, 'rows.jsonl')}`,
      );
    });
}

/** What a reader of the table should know of items that were cut or left out. */
function remarks(results: readonly Result[]): string {
  return results
    .flatMap(({ task, skipped, truncated, invalid }) => [
      ...(skipped > 0 ? [`${task}: ${skipped} rows of the file are not usable questions and were left out\n`] : []),
      ...(truncated > 0 ? [`${task}: the prompts of ${truncated} questions were cut from the left\n`] : []),
      ...(invalid > 0
        ? [`${task}: ${invalid} questions have a score that is not a finite number and were left out\n`]
        : []),
    ])
    .join('');
}
