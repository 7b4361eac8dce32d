import { UsageError } from '../base/errors';
import { adaptiveTable, binTable, type BinRow } from './bins';
import { checkNotEmpty, checkSameLength } from './check';

function gaps(table: readonly BinRow[]): { weight: number; gap: number }[] {
  const n = table.reduce((sum, bin) => sum + bin.count, 0);
  checkNotEmpty(n);
  return table
    .filter((bin) => bin.count > 0)
    .map((bin) => ({ weight: bin.count / n, gap: Math.abs(bin.accuracy! - bin.mean_confidence!) }));
}

/** Sum over bins of |B|/n |acc(B) - conf(B)|, the L1 norm. @throws CalmError on a table without pairs. */
export function expectedGap(table: readonly BinRow[]): number {
  return gaps(table).reduce((sum, { weight, gap }) => sum + weight * gap, 0);
}

/** The largest |acc(B) - conf(B)| of the bins that have a pair. @throws CalmError on a table without pairs. */
export function maximumGap(table: readonly BinRow[]): number {
  return gaps(table).reduce((most, { gap }) => Math.max(most, gap), 0);
}

/** sqrt(sum over bins of |B|/n (acc(B) - conf(B))^2), the L2 norm. @throws CalmError on a table without pairs. */
export function rmsGap(table: readonly BinRow[]): number {
  return Math.sqrt(gaps(table).reduce((sum, { weight, gap }) => sum + weight * gap * gap, 0));
}

/** Plain mean of |acc(B) - conf(B)| over the bins that have a pair. @throws CalmError on a table without pairs. */
export function averageGap(table: readonly BinRow[]): number {
  const all = gaps(table);
  return all.reduce((sum, { gap }) => sum + gap, 0) / all.length;
}

/**
 * Expected calibration error over equal-width bins (Guo et al. 2017, Eq. 3; conf-ECE of the CALM paper, Eq. 13).
 * @param confidence n confidences in [0, 1]
 * @param correct n outcomes, 0 or 1
 */
export function confEce(confidence: ArrayLike<number>, correct: ArrayLike<number>, bins = 10): number {
  return expectedGap(binTable(confidence, correct, bins));
}

/** Expected calibration error over equal-mass bins as `adaptiveTable` cuts them (not the average error below). */
export function adaptiveEce(confidence: ArrayLike<number>, correct: ArrayLike<number>, bins = 10): number {
  return expectedGap(adaptiveTable(confidence, correct, bins));
}

/** Maximum calibration error: the largest gap of any equal-width bin (Guo et al. 2017, Eq. 5). */
export function mce(confidence: ArrayLike<number>, correct: ArrayLike<number>, bins = 10): number {
  return maximumGap(binTable(confidence, correct, bins));
}

/** Root-mean-square calibration error over equal-width bins (Hendrycks et al. 2019). */
export function rmsEce(confidence: ArrayLike<number>, correct: ArrayLike<number>, bins = 10): number {
  return rmsGap(binTable(confidence, correct, bins));
}

/** Average calibration error: every equal-width bin with a pair counts the same (Neumann et al. 2018); "ACE" is also used for `adaptiveEce`. */
export function averageCalibrationError(confidence: ArrayLike<number>, correct: ArrayLike<number>, bins = 10): number {
  return averageGap(binTable(confidence, correct, bins));
}

/**
 * ECE of two-class predictions, in the variant that is named: `top-label` compares max(p, 1 - p) with whether the
 * more probable class is right (a tie goes to class 0), `positive-class` compares p with the label.
 * @param positive n probabilities of class 1
 * @param labels n labels, 0 or 1
 */
export function binaryEce(
  positive: ArrayLike<number>,
  labels: ArrayLike<number>,
  variant: 'top-label' | 'positive-class',
  bins = 10,
): number {
  checkSameLength(positive, labels, 'probabilities', 'labels');
  if (variant === 'positive-class') return confEce(positive, labels, bins);
  if (variant !== 'top-label') throw new UsageError(`unknown variant of the binary ECE: ${String(variant)}`);
  const p = Array.from(positive);
  const correct = p.map((value, i) => (labels[i] === (value > 0.5 ? 1 : 0) ? 1 : 0));
  return confEce(
    p.map((value) => Math.max(value, 1 - value)),
    correct,
    bins,
  );
}
