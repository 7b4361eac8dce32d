import { checkNotEmpty, checkSameLength } from './check';
import type { Predictions } from './predictions';
import { logSumExp } from './softmax';

/** The index of the largest value; of several, the lowest. */
export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let k = 1; k < values.length; k++) if (values[k]! > values[best]!) best = k;
  return best;
}

/** The largest probability of each row, and whether that option is right (1 or 0; of tied options, the lowest index). */
export function topLabel({ probs, labels }: Predictions): { confidence: number[]; correct: number[] } {
  checkSameLength(probs, labels, 'rows', 'labels');
  const top = probs.map(argmax);
  return {
    confidence: probs.map((p, i) => p[top[i]!]!),
    correct: labels.map((label, i) => (label === top[i] ? 1 : 0)),
  };
}

/** The fraction of rows whose most probable option is the right one. @throws CalmError without rows. */
export function accuracy(predictions: Predictions): number {
  return mean(topLabel(predictions).correct);
}

/**
 * Mean negative log-likelihood of the labels, in nats; Infinity when a label has probability 0. Taken from the
 * logits where those were given, so that a probability too small for a double still counts.
 * @throws CalmError without rows
 */
export function nll({ probs, labels, logits }: Predictions): number {
  checkSameLength(probs, labels, 'rows', 'labels');
  return mean(
    labels.map((label, i) => (logits ? logSumExp(logits[i]!) - logits[i]![label]! : 0 - Math.log(probs[i]![label]!))),
  );
}

/** Mean entropy of the rows' distributions, in nats. @throws CalmError without rows. */
export function meanEntropy({ probs }: Pick<Predictions, 'probs'>): number {
  return mean(probs.map((row) => row.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0)));
}

/** The arithmetic mean, in float64. @throws CalmError of nothing. */
export function mean(values: readonly number[]): number {
  checkNotEmpty(values.length);
  return values.reduce((a, b) => a + b, 0) / values.length;
}
