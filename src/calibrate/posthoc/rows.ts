import { CalmError } from '../../base/errors';
import { argmax, softmax } from '../../metrics';
import { type Calibrated, checkClasses, type Data, type Uncalibrated } from './method';

/**
 * Where a logarithm is taken of probabilities that are given as such, smaller ones count as this (as in netcal and
 * betacal): a 0 is what rounding left of something. Logits are taken as they are.
 */
const SMALLEST_GIVEN = 2 ** -52;
/** The logarithm of the smallest double above 0: less than this is not told apart, as where an option is masked. */
const LEAST_LOG = Math.log(Number.MIN_VALUE);

/** The probabilities of a row. */
export function probsOf(row: Uncalibrated): readonly number[] {
  return 'probs' in row ? row.probs : softmax(row.logits);
}

/** The logits of a row; of probabilities, their logarithms. */
export function logitsOf(row: Uncalibrated): readonly number[] {
  return 'logits' in row ? row.logits : row.probs.map((p) => Math.log(Math.max(p, SMALLEST_GIVEN)));
}

/** One of the checked rows: its logits where those were given, and its probabilities. */
export function rowAt({ predictions: { logits, probs } }: Data, i: number): Uncalibrated {
  return logits ? { logits: logits[i]!, probs: probs[i]! } : { probs: probs[i]! };
}

/**
 * Of every option j, log p_j and log(1 - p_j) under softmax(z), neither ever rounded to 0 of the other: their difference
 * is the log-odds, z_1 - z_0 of two options.
 * @param log, rest filled with K values each
 */
export function logProbabilities(z: readonly number[], log: number[], rest: number[]): void {
  const top = argmax(z);
  let [others, second] = [0, -Infinity];
  for (let k = 0; k < z.length; k++) {
    if (k === top) continue;
    others += Math.exp(z[k]! - z[top]!);
    second = Math.max(second, z[k]!);
  }
  const norm = Math.log1p(others);
  for (let j = 0; j < z.length; j++) {
    log[j] = Math.max(LEAST_LOG, z[j]! - z[top]! - norm);
    rest[j] = Math.log1p(-Math.exp(log[j]!));
  }
  let logOthers = Math.log(others);
  if (others < 1e-290) {
    let sum = 0;
    for (let k = 0; k < z.length; k++) if (k !== top) sum += Math.exp(z[k]! - second);
    logOthers = second - z[top]! + Math.log(sum);
  }
  rest[top] = Math.max(LEAST_LOG, logOthers - norm);
}

/** softmax of scores made from a row's logits. @throws CalmError on another number of options, and on overflow */
export function linear(row: Uncalibrated, classes: number, scores: (z: readonly number[]) => number[]): Calibrated {
  const z = logitsOf(row);
  checkClasses(z, classes);
  const logits = scores(z);
  if (!logits.every(Number.isFinite)) {
    throw new CalmError(`the scores ${logits.join(', ')} are no numbers`, {
      remedy: 'leave out options that are masked',
    });
  }
  return { probs: softmax(logits), logits };
}
