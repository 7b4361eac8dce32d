import { CalmError } from '../base/errors';
import { checkNotEmpty } from './check';
import { softmax } from './softmax';

/** One item as it is given: its options' probabilities or logits (the key says which), and the right option's index. */
export type Prediction = { probs: readonly number[]; label: number } | { logits: readonly number[]; label: number };

/** Checked predictions: n rows, each with its own number of options (at least 2). */
export interface Predictions {
  probs: readonly (readonly number[])[];
  labels: readonly number[];
  /** Present when logits were given: the NLL is then taken in log space. */
  logits?: readonly (readonly number[])[];
}

export interface CheckOptions {
  /** Which key to read; without it, the one the rows have. */
  kind?: 'probs' | 'logits';
  /** What an error calls row i (from 0), such as its file and line. */
  where?: (row: number) => string;
}

/** How far the sum of a row's probabilities may be from 1: room for probabilities that were float32. */
const SUM_TOLERANCE = 1e-6;

function fields(value: unknown): Partial<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CalmError('is not an object', { remedy: 'expected {"probs": [...], "label": 0}' });
  }
  return value;
}

function numbers(value: unknown, kind: string): number[] {
  if (!Array.isArray(value)) throw new CalmError(`has no list "${kind}"`);
  if (value.length < 2) throw new CalmError(`has ${value.length} option(s)`, { remedy: 'at least 2 are needed' });
  return value.map((x: unknown, k) => {
    if (typeof x === 'number' && Number.isFinite(x)) return x;
    throw new CalmError(`${kind}[${k}] is ${describe(x)}, not a finite number`);
  });
}

function describe(x: unknown): string {
  return typeof x === 'number' ? String(x) : (JSON.stringify(x) ?? 'missing');
}

function probabilities(values: number[]): number[] {
  const sum = values.reduce((a, b) => a + b, 0);
  const negative = values.findIndex((p) => p < 0);
  if (negative >= 0) {
    throw new CalmError(`probs[${negative}] is ${values[negative]}, below 0`, { remedy: 'give logits as "logits"' });
  }
  if (Math.abs(sum - 1) > SUM_TOLERANCE) {
    throw new CalmError(`the probabilities sum to ${sum}, not 1`, { remedy: 'give logits as "logits"' });
  }
  return values.map((p) => Math.min(p, 1));
}

function label(value: unknown, options: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value >= options) {
    throw new CalmError(`label is ${describe(value)}`, { remedy: `expected an integer from 0 to ${options - 1}` });
  }
  return value;
}

/**
 * Checks rows `{probs, label}` or `{logits, label}` (other keys are ignored; all rows have the same one of the two) and
 * turns logits into probabilities. Whether numbers are probabilities or logits is never guessed from their size.
 * A probability above 1 by rounding is taken as 1.
 * @throws CalmError that names the row: not finite, negative, not summing to 1 within 1e-6, fewer than 2 options, a
 * label that is not one of them; or when there are no rows
 */
export function checkPredictions(
  rows: readonly Prediction[] | readonly unknown[],
  options: CheckOptions = {},
): Predictions {
  checkNotEmpty(rows.length);
  const where = options.where ?? ((row: number) => `row ${row + 1}`);
  let kind = options.kind;
  const values: number[][] = [];
  const labels: number[] = [];
  rows.forEach((row, i) => {
    try {
      const given = fields(row);
      kind ??= keyOf(given);
      if (!options.kind && keyOf(given) !== kind)
        throw new CalmError(`has "${keyOf(given)}", the rows before "${kind}"`);
      const read = numbers(given[kind], kind);
      values.push(kind === 'probs' ? probabilities(read) : read);
      labels.push(label(given['label'], read.length));
    } catch (error) {
      if (!(error instanceof CalmError)) throw error;
      throw new CalmError(`${where(i)}: ${error.message}`, { remedy: error.remedy });
    }
  });
  return kind === 'logits'
    ? { probs: values.map((z) => softmax(z)), labels, logits: values }
    : { probs: values, labels };
}

function keyOf(given: Partial<Record<string, unknown>>): 'probs' | 'logits' {
  const [probs, logits] = [given['probs'] !== undefined, given['logits'] !== undefined];
  if (probs === logits) {
    throw new CalmError(probs ? 'has both "probs" and "logits"' : 'has neither "probs" nor "logits"', {
      remedy: probs ? 'keep one, or say which kind to read' : 'expected {"probs": [...], "label": 0}',
    });
  }
  return probs ? 'probs' : 'logits';
}
