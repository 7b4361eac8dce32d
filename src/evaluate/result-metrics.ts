import { toJson } from '../base/files';
import type { Random } from '../engine/random';
import { auroc, bootstrapInterval, confEce, cwEce, logSoftmax, summarise } from '../metrics';
import { groupMean } from './group-means';
import type { Metric, Result, Row } from './types';

/** What one item adds to each metric. */
interface Item {
  confidence: number;
  correct: number;
  brier: number;
  nll: number;
  probs: readonly number[];
  label: number;
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

/** Standard error of a mean, with n - 1; null for a single value or an infinite one. */
export function standardError(values: readonly number[]): number | null {
  if (values.length < 2) return null;
  const m = mean(values);
  const error = Math.sqrt(values.reduce((sum, v) => sum + (v - m) ** 2, 0) / (values.length - 1) / values.length);
  return Number.isFinite(error) ? error : null;
}

/** 0.975 quantile of the standard normal distribution. */
export const Z = 1.959964;

/**
 * Every metric of rows, with standard errors and 95 % bootstrap intervals over items.
 * @param temperature the one behind the rows' probabilities: the NLL is taken before they underflow to 0; null where
 *   they are not a softmax of the scores at one
 */
export function summariseRows(
  rows: readonly Row[],
  {
    bins,
    resamples,
    random,
    temperature = 1,
  }: { bins: number; resamples: number; random: Random; temperature?: number | null },
): Pick<Result, 'metrics' | 'bins' | 'binning'> {
  const {
    bins: tables,
    convention,
    n: _n,
    ...values
  } = summarise({ probs: rows.map((r) => r.probs), labels: rows.map((r) => r.label) }, { bins });
  const items = rows.map(({ logprobs, probs, label, correct }): Item => ({
    confidence: Math.max(...probs),
    correct: correct ? 1 : 0,
    brier: probs.reduce((sum, p, j) => sum + (p - (j === label ? 1 : 0)) ** 2, 0),
    nll: temperature === null ? -Math.log(probs[label]!) : -logSoftmax(logprobs, temperature)[label]!,
    probs,
    label,
  }));
  const state = random.state;
  type Statistic = (sample: readonly Item[]) => number | null;
  // The same resamples for every metric: their intervals belong together.
  const bootstrap = (statistic: Statistic) =>
    resamples > 0 ? bootstrapInterval(items, statistic, { resamples, random: random.at(state) }) : null;
  const percentile = (statistic: Statistic): [number, number] | null => {
    const found = bootstrap(statistic);
    return found && [found.low, found.high];
  };
  /** Resampling biases an ECE upward, so that its percentiles may lie beyond it: the interval is set around the value. */
  const around = (value: number, statistic: Statistic): Pick<Metric, 'stderr' | 'interval'> => {
    const stderr = bootstrap(statistic)?.standard_error ?? null;
    const reach = stderr === null ? null : Z * stderr;
    return { stderr, interval: reach === null ? null : [Math.max(0, value - reach), Math.min(1, value + reach)] };
  };
  const pairs = (sample: readonly Item[]) => [sample.map((i) => i.confidence), sample.map((i) => i.correct)] as const;
  const average = (name: 'correct' | 'brier' | 'nll' | 'confidence', value: number, up: boolean): Metric => ({
    value,
    stderr: standardError(items.map((i) => i[name])),
    interval: percentile((s) => mean(s.map((i) => i[name]))),
    higher_is_better: up,
  });
  const plain = (value: number | null, up = false): Metric => ({
    value,
    stderr: null,
    interval: null,
    higher_is_better: up,
  });
  const metrics: Record<string, Metric> = {
    accuracy: average('correct', values.accuracy, true),
    mean_confidence: average('confidence', mean(items.map((i) => i.confidence)), false),
    conf_ece: { ...plain(values.conf_ece), ...around(values.conf_ece, (s) => confEce(...pairs(s), bins)) },
    cw_ece: {
      ...plain(values.cw_ece),
      ...around(values.cw_ece, (s) => cwEce({ probs: s.map((i) => i.probs), labels: s.map((i) => i.label) }, bins)),
    },
    adaptive_ece: plain(values.adaptive_ece),
    mce: plain(values.mce),
    rms_ece: plain(values.rms_ece),
    smooth_ece: plain(values.smooth_ece),
    brier: average('brier', values.brier, false),
    nll: average('nll', mean(items.map((i) => i.nll)), false),
    auroc: { ...plain(values.auroc, true), interval: percentile((s) => auroc(...pairs(s))) },
  };
  for (const [name, by] of [
    ['acc_norm', 'prediction_norm'],
    ['acc_bytes', 'prediction_bytes'],
  ] as const) {
    if (rows.some((row) => row[by] === undefined)) continue;
    const hits = rows.map((row) => (row[by] === row.label ? 1 : 0));
    metrics[name] = { ...plain(mean(hits), true), stderr: standardError(hits) };
  }
  return { metrics, bins: tables, binning: JSON.parse(toJson(convention)) as Record<string, unknown> };
}

/**
 * The accuracy of each topic and their unweighted mean, where the items have two topics or more.
 * @param topicOf the topic of each row, in order
 */
export function summariseTopics(
  rows: readonly Row[],
  topicOf: readonly (string | undefined)[],
): { topics: NonNullable<Result['topics']>; mean: Metric } | undefined {
  const hits = new Map<string, number[]>();
  rows.forEach(({ correct }, i) => {
    const topic = topicOf[i] ?? 'no topic';
    hits.set(topic, [...(hits.get(topic) ?? []), correct ? 1 : 0]);
  });
  if (hits.size < 2) return undefined;
  const topics = [...hits].map(([topic, of]) => ({ topic, n: of.length, value: mean(of), stderr: standardError(of) }));
  return { topics, mean: { ...groupMean(topics, { weighted: false }), interval: null, higher_is_better: true } };
}

/** Items with two highest scores alike. */
export function countTies(rows: readonly Row[]): number {
  return rows.filter(({ logprobs }) => {
    const [first, second] = [...logprobs].sort((a, b) => b - a);
    return first === second;
  }).length;
}
