import { binIndex, binTable } from './bins';
import { checkSameLength } from './check';
import { classPairs } from './classwise';
import type { Predictions } from './predictions';
import { mean, topLabel } from './scores';

/** Brier score in the sum form, 0 to 2: mean over rows of sum_j (p_j - [label = j])^2. @throws CalmError without rows. */
export function brier({ probs, labels }: Predictions): number {
  checkSameLength(probs, labels, 'rows', 'labels');
  return mean(probs.map((row, i) => row.reduce((sum, p, j) => sum + (p - (labels[i] === j ? 1 : 0)) ** 2, 0)));
}

/** Brier score of the confidence, 0 to 1: mean of (confidence - correct)^2. @throws CalmError without rows. */
export function topLabelBrier(predictions: Predictions): number {
  const { confidence, correct } = topLabel(predictions);
  return mean(confidence.map((c, i) => (c - correct[i]!) ** 2));
}

/** The terms of the Brier score: brier = reliability - resolution + uncertainty + within_bin. */
export interface BrierDecomposition {
  reliability: number;
  resolution: number;
  uncertainty: number;
  within_bin: number;
}

/**
 * Murphy's decomposition of the sum-form Brier score (Murphy 1973), class by class over equal-width bins B:
 * reliability = |B|/N (conf - acc)^2, resolution = |B|/N (acc - base rate)^2, uncertainty = base rate (1 - base rate),
 * each summed. Confidences that differ inside a bin leave a rest, so `within_bin` (Stephenson et al. 2008: within-bin
 * variance minus twice the within-bin covariance, sum of (p - conf)^2 - 2 (p - conf)(y - acc) over N) makes it exact.
 * @throws CalmError without rows
 */
export function brierDecomposition(predictions: Predictions, bins = 10): BrierDecomposition {
  const n = predictions.labels.length;
  const terms: BrierDecomposition = { reliability: 0, resolution: 0, uncertainty: 0, within_bin: 0 };
  for (const { values, outcomes } of classPairs(predictions)) {
    const table = binTable(values, outcomes, bins);
    const rate = mean(outcomes);
    terms.uncertainty += (values.length / n) * rate * (1 - rate);
    for (const { count, mean_confidence: conf, accuracy: acc } of table) {
      if (conf === null || acc === null) continue;
      terms.reliability += (count / n) * (conf - acc) ** 2;
      terms.resolution += (count / n) * (acc - rate) ** 2;
    }
    values.forEach((p, i) => {
      const bin = table[binIndex(p, bins)]!;
      const spread = p - bin.mean_confidence!;
      terms.within_bin += (spread ** 2 - 2 * spread * (outcomes[i]! - bin.accuracy!)) / n;
    });
  }
  return terms;
}
