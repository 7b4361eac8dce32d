import type { Command } from 'commander';
import { summarise, type BinRow, type CalibrationMetrics } from '../metrics';
import { finish, integer, MOST_BINS } from './options';
import { readPredictions } from './predictions';

export function metrics(calm: Command): void {
  calm
    .command('metrics')
    .description('Measure predictions: every calibration metric and the bins behind it')
    .argument('<predictions>', 'rows {probs: […], label} or {logits: […], label}')
    .option('--bins <n>', 'number of bins', integer(1, MOST_BINS), 10)
    .option('--json', 'print one JSON object')
    .action(async (file: string, options: { bins: number; json?: boolean }) => {
      const { predictions } = await readPredictions(file);
      const found = summarise(predictions, { bins: options.bins });
      finish(options, found, describe(found));
    });
}

/** The metrics as aligned lines. */
export function lines({ bins: _bins, convention: _convention, ...values }: CalibrationMetrics): string[] {
  return Object.entries(values).map(([name, value]) => `${name.padEnd(14)}${value === null ? '—' : round(value)}`);
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
    'from   to     count  confidence  accuracy',
    ...found.bins.confidence.map(binLine),
  ].join('\n');
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
