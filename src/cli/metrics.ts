import type { Command } from 'commander';
import { UsageError } from '../base/errors';
import { readJsonl } from '../base/files';
import { semanticMetrics, summarise, type BinRow, type CalibrationMetrics, type SemanticMetrics } from '../metrics';
import { finish, integer, MOST_BINS } from './options';
import { readPredictions } from './predictions';

interface Options {
  bins: number;
  semantic?: boolean;
  resamples?: number;
  seed?: number;
  json?: boolean;
}

export function metrics(calm: Command): void {
  calm
    .command('metrics')
    .description('Measure predictions: every calibration metric and the bins behind it')
    .argument('<predictions>', 'rows {probs: […], label} or {logits: […], label}; or what --semantic says')
    .option('--semantic', 'rows {id, clusters: […], correct: {cluster: true}}: sampled answers, clustered by meaning')
    .option('--bins <n>', 'number of bins', integer(1, MOST_BINS), 10)
    .option('--resamples <n>', 'with --semantic: bootstrap resamples (1000; 0 for none)', integer(0, 1_000_000))
    .option('--seed <s>', 'with --semantic: seed of the resampling (0)', integer(0))
    .option('--json', 'print one JSON object')
    .action(async (file: string, options: Options) => {
      if (options.semantic) {
        const found = await ofClusters(file, options);
        finish(options, found, describeSemantic(found));
        return;
      }
      const needless = (['resamples', 'seed'] as const).find((name) => options[name] !== undefined);
      if (needless) throw new UsageError(`--${needless} is for --semantic`, { remedy: `leave out --${needless}` });
      const { predictions } = await readPredictions(file);
      const found = summarise(predictions, { bins: options.bins });
      finish(options, found, describe(found));
    });
}

/** Semantic metrics of a JSON-lines file. */
async function ofClusters(file: string, { bins, resamples, seed }: Options): Promise<SemanticMetrics> {
  const rows: unknown[] = [];
  const names: string[] = [];
  for await (const { value, where } of readJsonl(file)) {
    rows.push(value);
    names.push(where);
  }
  return semanticMetrics(rows, { bins, resamples, seed, where: (row) => names[row]! });
}

/** The metrics as aligned lines. */
export function lines({ bins: _bins, convention: _convention, ...values }: CalibrationMetrics): string[] {
  return aligned(values, 14);
}

function aligned(values: Record<string, number | null>, width: number): string[] {
  return Object.entries(values).map(([name, value]) => `${name.padEnd(width)}${value === null ? '—' : round(value)}`);
}

function round(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(6);
}

function describe(found: CalibrationMetrics): string {
  const { bins, rule, confidence } = found.convention;
  return [
    ...lines(found),
    '',
    `Top-choice confidence, ${bins} bins (${rule}; ${confidence})`,
    ...binLines(found.bins.confidence),
  ].join('\n');
}

function describeSemantic({ bins: tables, convention, bootstrap, ...values }: SemanticMetrics): string {
  const { bins, rule, confidence, per_sample } = convention;
  return [
    ...aligned(values, 32),
    ...(bootstrap ? ['', ...bootstrapLines(bootstrap, values)] : []),
    '',
    `Confidence of questions, ${bins} bins (${rule}; ${confidence})`,
    ...binLines(tables.confidence),
    '',
    `Confidence of samples, ${bins} bins (${rule}; ${per_sample})`,
    ...binLines(tables.per_sample),
  ].join('\n');
}

function bootstrapLines(
  { value, interval, bias, corrected, corrected_interval, resamples }: NonNullable<SemanticMetrics['bootstrap']>,
  { k_min, k_max }: Pick<SemanticMetrics, 'k_min' | 'k_max'>,
): string[] {
  const between = (ends: [number, number] | null) => (ends ? `  95 % [${ends.map(round).join(', ')}]` : '');
  const k = k_min === k_max ? `${k_min}` : `${k_min} to ${k_max}`;
  return [
    `Sem-ECE and its bias from ${k} samples a question, ${resamples} resamples`,
    `as measured     ${round(value)}${between(interval)}`,
    `bias            ${bias === null ? '— (one sample a question does not show it)' : round(bias)}`,
    ...(corrected === null ? [] : [`bias corrected  ${round(corrected)}${between(corrected_interval)}`]),
  ];
}

function binLines(table: readonly BinRow[]): string[] {
  return ['from   to     count  confidence  accuracy', ...table.map(binLine)];
}

function binLine({ lo, hi, count, mean_confidence, accuracy }: BinRow): string {
  const mean = (value: number | null) => (value === null ? '—' : value.toFixed(4));
  return [
    lo.toFixed(3).padEnd(7),
    hi.toFixed(3).padEnd(7),
    String(count).padStart(5),
    mean(mean_confidence).padStart(12),
    mean(accuracy).padStart(10),
  ].join('');
}
