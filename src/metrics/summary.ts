import { auroc } from './auroc';
import { adaptiveTable, binTable, type BinRow } from './bins';
import { brier } from './brier';
import { checkBins, checkNotEmpty, checkPairs } from './check';
import { classwiseTotalTable, cwEce } from './classwise';
import { expectedGap, maximumGap, rmsGap } from './ece';
import { checkPredictions, type CheckOptions, type Prediction, type Predictions } from './predictions';
import { mean, nll, topLabel } from './scores';
import { smoothEce } from './smooth-ece';

/** What the numbers of a result mean, so that it can be reproduced elsewhere. */
export type Convention = {
  bins: number;
  rule: string;
  norm: string;
  mass: string;
  confidence: string;
  n: number;
  adaptive: string;
  smooth: string;
};

/** Metrics of confidences against correctness, n pairs. */
export interface ConfidenceMetrics {
  n: number;
  accuracy: number;
  conf_ece: number;
  adaptive_ece: number;
  mce: number;
  rms_ece: number;
  smooth_ece: number;
  /** Null when all are right or all wrong. */
  auroc: number | null;
  bins: { confidence: BinRow[] };
  convention: Convention;
}

/** The JSON of `calm metrics`. `nll` is Infinity when a label has probability 0. */
export interface CalibrationMetrics extends ConfidenceMetrics {
  cw_ece: number;
  brier: number;
  nll: number;
  bins: { confidence: BinRow[]; classwise_total: BinRow[] };
  convention: Convention & {
    kind: 'probs' | 'logits';
    classwise: string;
    brier: string;
    nll: string;
    tie_rule: string;
  };
}

/**
 * Every metric that needs only confidences and whether each answer was right.
 * @param confidence n confidences in [0, 1]
 * @param correct n outcomes, 0 or 1
 * @throws CalmError on values outside those, without any, or on a number of bins below 1
 */
export function confidenceMetrics(
  { confidence, correct }: { confidence: ArrayLike<number>; correct: ArrayLike<number> },
  { bins = 10 }: { bins?: number } = {},
): ConfidenceMetrics {
  checkBins(bins);
  checkPairs(confidence, correct);
  checkNotEmpty(confidence.length);
  const table = binTable(confidence, correct, bins);
  return {
    n: confidence.length,
    accuracy: mean(Array.from(correct)),
    conf_ece: expectedGap(table),
    adaptive_ece: expectedGap(adaptiveTable(confidence, correct, bins)),
    mce: maximumGap(table),
    rms_ece: rmsGap(table),
    smooth_ece: smoothEce(confidence, correct),
    auroc: auroc(confidence, correct),
    bins: { confidence: table },
    convention: {
      bins,
      rule: '[lo, hi), last bin closed, edges k/bins',
      norm: 'L1 weighted by bin count; mce: maximum; rms_ece: L2',
      mass: 'equal width; adaptive_ece: equal mass',
      confidence: 'probability of the predicted option',
      n: confidence.length,
      adaptive: 'stable sort by confidence, runs whose sizes differ by at most one (array_split)',
      smooth: 'reflected Gaussian kernel, bandwidth where smECE equals it',
    },
  };
}

/** `calibrationMetrics` of predictions that are checked already. */
export function summarise(predictions: Predictions, { bins = 10 }: { bins?: number } = {}): CalibrationMetrics {
  const { n, accuracy, conf_ece, adaptive_ece, mce, rms_ece, smooth_ece, auroc, ...top } = confidenceMetrics(
    topLabel(predictions),
    { bins },
  );
  return {
    n,
    accuracy,
    conf_ece,
    cw_ece: cwEce(predictions, bins),
    adaptive_ece,
    mce,
    rms_ece,
    smooth_ece,
    brier: brier(predictions),
    nll: nll(predictions),
    auroc,
    bins: { confidence: top.bins.confidence, classwise_total: classwiseTotalTable(predictions, bins) },
    convention: {
      ...top.convention,
      kind: predictions.logits ? 'logits' : 'probs',
      classwise: 'mean over classes of the ECE of all pairs (p_j, label = j) of the rows that have option j',
      brier: 'sum over options, 0 to 2',
      nll: 'nats',
      tie_rule: 'lowest index',
    },
  };
}

/**
 * Every calibration metric of rows `{probs, label}` or `{logits, label}`, and the bin tables behind them; exactly the
 * JSON of `calm metrics`. Rows may differ in their number of options (see `classwiseEce`).
 * @throws CalmError that names the row at fault (see `checkPredictions`), or on a number of bins below 1
 */
export function calibrationMetrics(
  rows: readonly Prediction[] | readonly unknown[],
  options: CheckOptions & { bins?: number } = {},
): CalibrationMetrics {
  return summarise(checkPredictions(rows, options), options);
}
