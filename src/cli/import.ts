import type { Command } from 'commander';
import * as path from 'node:path';
import { resultsTable, toMarkdown } from '../report/table';
import { finish, integer, MOST_BINS, oneOf } from './options';

interface Options {
  out: string;
  bins: number;
  resamples: number;
  json?: boolean;
}

export function importResults(calm: Command): void {
  calm
    .command('import')
    .description('Read the results of another evaluation harness, to calibrate and compare them')
    .argument('<harness>', 'lm-eval', oneOf(['lm-eval']))
    .argument('<file>', 'its results_<date>.json or samples_<task>_<date>.jsonl (written with --log_samples)')
    .requiredOption('--out <folder>', 'where results.json and rows.jsonl go')
    .option('--bins <n>', 'bins of the reliability diagram and the ECEs', integer(1, MOST_BINS), 10)
    .option('--resamples <n>', 'bootstrap resamples behind the intervals; 0 for none', integer(0, 1_000_000), 1000)
    .option('--json', 'print one JSON object')
    .action(async (_harness: string, file: string, { out, ...options }: Options) => {
      const { importLmEval, writeResults } = await import('../index.js');
      const results = await importLmEval(file, options);
      writeResults(out, results);
      const left = results.filter(({ skipped }) => skipped > 0);
      finish(
        options,
        { out, results: results.map(({ rows: _rows, ...rest }) => rest) },
        [
          toMarkdown(resultsTable(results)),
          ...left.map(({ task, skipped }) => `${task}: ${skipped} rows could not be read and were left out`),
          `${path.join(out, 'results.json')}, ${path.join(out, 'rows.jsonl')}`,
        ].join('\n\n'),
      );
    });
}
