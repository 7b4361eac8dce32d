import type { Command } from 'commander';
import { UsageError } from '../base/errors';
import { writeFile } from '../base/files';
import { pick } from '../base/pick';
import {
  describePosthoc,
  POSTHOC,
  type PosthocName,
  posthocOptionsFromTexts,
  posthocReport,
  posthocToJson,
} from '../calibrate/posthoc';
import { calibrationToJson, temperatureReport } from '../calibrate/temperature';
import type { CalibrationMetrics } from '../metrics';
import { lines } from './metrics';
import { finish, integer, MOST_BINS } from './options';
import { readPredictions } from './predictions';

interface Options {
  bins: number;
  set: string[];
  out?: string;
  json?: boolean;
}

type Fitter = (file: string, options: Options) => Promise<void>;

const METHODS: Record<string, Fitter> = {
  temperature,
  ...Object.fromEntries((Object.keys(POSTHOC) as PosthocName[]).map((name) => [name, posthoc(name)])),
};

export function fit(calm: Command): void {
  calm
    .command('fit')
    .description('Fit a post-hoc calibrator to predictions')
    .argument('<method>', Object.keys(METHODS).join(', '))
    .argument('<predictions>', 'rows {logits: […], label} or {probs: […], label}')
    .option('--bins <n>', 'bins of the metrics before and after', integer(1, MOST_BINS), 10)
    .option(
      '--set <key=value>',
      'an option of the method; may be given again',
      (text, all: string[]) => [...all, text],
      [],
    )
    .option('--out <file>', 'write the parameters, for "calm eval --calibration"')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      () => `\nMethods, and their options for --set:\n${describeTemperature()}\n${describePosthoc()}`,
    )
    .action((method: string, file: string, options: Options) => pick('method', method, METHODS)(file, options));
}

const describeTemperature = () => `  ${'temperature'.padEnd(12)} softmax(z / T), T from 0.1 to 10 (Guo 2017)`;

async function temperature(file: string, options: Options): Promise<void> {
  if (options.set.length > 0) throw new UsageError('temperature has no options', { remedy: 'leave out --set' });
  const { rows, where } = await readPredictions(file);
  const { metrics_before, metrics_after, ...found } = temperatureReport(rows, { where, bins: options.bins });
  if (options.out) writeFile(options.out, calibrationToJson(found));
  const { version: _version, method: _method, ...fields } = found;
  finish(
    options,
    { ...fields, metrics_before, metrics_after },
    [
      `status ${found.status}, T = ${String(found.temperature)}, within ${found.bounds.join(' to ')}: ${String(found.bounded_temperature)}`,
      ...beside(metrics_before, metrics_after),
    ].join('\n'),
  );
}

/** The verb for a relative of temperature scaling. */
function posthoc(name: PosthocName): Fitter {
  return async (file, options) => {
    const chosen = posthocOptionsFromTexts(name, options.set);
    const { predictions, where } = await readPredictions(file);
    const report = posthocReport(name, predictions, { ...chosen, where }, options.bins);
    const { metrics_before, metrics_after, ...found } = report;
    if (options.out) writeFile(options.out, posthocToJson(found));
    const { version: _version, method: _method, ...fields } = found;
    const { status, n: _n, nll_before: _before, nll_after: _after, ...parameters } = fields;
    finish(
      options,
      { ...fields, metrics_before, metrics_after },
      [
        `status ${status}`,
        ...Object.entries(parameters).map(([key, value]) => `${key} ${shortly(value)}`),
        ...beside(metrics_before, metrics_after),
      ].join('\n'),
    );
  };
}

/** A parameter in words: numbers to six digits, long lists by their length. */
function shortly(value: unknown): string {
  if (typeof value === 'number') return String(Number(value.toPrecision(6)));
  if (Array.isArray(value)) {
    if (value.every((x) => typeof x === 'number') && value.length > 10) return `[${value.length} numbers]`;
    return `[${value.map(shortly).join(', ')}]`;
  }
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([key, x]) => `${key} ${shortly(x)}`)
    .join(' ');
}

/** Metrics before and after as lines of a table. */
function beside(before: CalibrationMetrics, after: CalibrationMetrics): string[] {
  const right = lines(after).map((line) => line.slice(14));
  return [
    '',
    'of the same rows  before      after',
    ...lines(before).map((line, i) => `${line.slice(0, 14).padEnd(18)}${line.slice(14).padEnd(12)}${right[i] ?? ''}`),
  ];
}
