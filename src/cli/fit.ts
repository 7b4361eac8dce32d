import type { Command } from 'commander';
import { pick } from '../base/pick';
import { writeFile } from '../base/files';
import { calibrationToJson, temperatureReport } from '../calibrate/temperature';
import { lines } from './metrics';
import { finish, integer, MOST_BINS } from './options';
import { readPredictions } from './predictions';

interface Options {
  bins: number;
  out?: string;
  json?: boolean;
}

const METHODS = { temperature };

export function fit(calm: Command): void {
  calm
    .command('fit')
    .description('Fit a post-hoc calibrator to predictions')
    .argument('<method>', Object.keys(METHODS).join(', '))
    .argument('<predictions>', 'rows {logits: […], label} or {probs: […], label}')
    .option('--bins <n>', 'bins of the metrics before and after', integer(1, MOST_BINS), 10)
    .option('--out <file>', 'write the parameters, for "calm eval --calibration"')
    .option('--json', 'print one JSON object')
    .action((method: string, file: string, options: Options) => pick('method', method, METHODS)(file, options));
}

async function temperature(file: string, options: Options): Promise<void> {
  const { rows, where } = await readPredictions(file);
  const { metrics_before, metrics_after, ...found } = temperatureReport(rows, { where, bins: options.bins });
  if (options.out) writeFile(options.out, calibrationToJson(found));
  const { version: _version, method: _method, ...fields } = found;
  const after = lines(metrics_after).map((line) => line.slice(14));
  finish(
    options,
    { ...fields, metrics_before, metrics_after },
    [
      `status ${found.status}, T = ${String(found.temperature)}, within ${found.bounds.join(' to ')}: ${String(found.bounded_temperature)}`,
      '',
      'of the same rows  before      after',
      ...lines(metrics_before).map(
        (line, i) => `${line.slice(0, 14).padEnd(18)}${line.slice(14).padEnd(12)}${after[i] ?? ''}`,
      ),
    ].join('\n'),
  );
}
