import type { BinRow } from '../../src/metrics';
import type { Metric } from '../../src/evaluate';
import type { Panel, ReportedResult } from '../../src/report';

/** Ten bins; the third is empty, the fourth has accuracy 0, the last is right as often as it says. */
export const BINS: BinRow[] = [
  { lo: 0, hi: 0.1, count: 10, mean_confidence: 0.05, accuracy: 0.2 },
  { lo: 0.1, hi: 0.2, count: 10, mean_confidence: 0.15, accuracy: 0.1 },
  { lo: 0.2, hi: 0.3, count: 0, mean_confidence: null, accuracy: null },
  { lo: 0.3, hi: 0.4, count: 4, mean_confidence: 0.35, accuracy: 0 },
  { lo: 0.4, hi: 0.5, count: 10, mean_confidence: 0.45, accuracy: 0.4 },
  { lo: 0.5, hi: 0.6, count: 20, mean_confidence: 0.55, accuracy: 0.45 },
  { lo: 0.6, hi: 0.7, count: 20, mean_confidence: 0.65, accuracy: 0.35 },
  { lo: 0.7, hi: 0.8, count: 20, mean_confidence: 0.75, accuracy: 0.65 },
  { lo: 0.8, hi: 0.9, count: 56, mean_confidence: 0.85, accuracy: 0.75 },
  { lo: 0.9, hi: 1, count: 50, mean_confidence: 0.96, accuracy: 0.96 },
];
// By hand: 10*.15 + 10*.05 + 4*.35 + 10*.05 + 20*.1 + 20*.3 + 20*.1 + 56*.1 + 50*0 = 19.5, of 200 pairs.
export const BINS_ECE = 0.0975;

export const PANELS: Panel[] = [
  { title: 'Model A, uncalibrated', subtitle: 'arc_easy, letter scoring', kind: 'classwise_total', n: 50, bins: BINS },
  {
    title: 'Model B, temperature',
    kind: 'confidence',
    n: 12345,
    bins: [
      { lo: 0, hi: 0.5, count: 0, mean_confidence: null, accuracy: null },
      { lo: 0.5, hi: 1, count: 12345, mean_confidence: 0.75, accuracy: 0.5 },
    ],
  },
];

const better = (value: number | null, interval?: [number, number]): Metric => ({
  value,
  stderr: null,
  interval: interval ?? null,
  higher_is_better: true,
});
const worse = (value: number | null): Metric => ({ value, stderr: null, interval: null, higher_is_better: false });

export const RESULTS: ReportedResult[] = [
  {
    model: 'smol_lm',
    task: 'arc_easy',
    scoring: 'letter',
    calibration: 'uncalibrated',
    n: 300,
    metrics: {
      accuracy: better(0.5233333, [0.4666, 0.58]),
      conf_ece: worse(0.31234567),
      cw_ece: worse(0.2),
      brier: worse(0.75),
      nll: worse(Infinity),
      auroc: better(null),
    },
    bins: { confidence: PANELS[1]!.bins.slice(), classwise_total: BINS },
  },
  {
    model: 'smol_lm',
    task: 'arc_easy',
    scoring: 'letter',
    calibration: 'temperature',
    n: 300,
    temperature: 2.5,
    metrics: {
      accuracy: better(0.5233333, [0.4666, 0.58]),
      conf_ece: worse(0.05),
      cw_ece: worse(0.1),
      brier: worse(0.6),
      nll: worse(1.2),
      auroc: better(0.61),
    },
    bins: { confidence: PANELS[1]!.bins.slice(), classwise_total: BINS },
  },
];
