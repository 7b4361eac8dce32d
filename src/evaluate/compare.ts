import { UsageError } from '../base/errors';
import { Random } from '../engine/random';
import { bootstrapInterval, confEce } from '../metrics';
import { Z } from './result-metrics';
import type { Row } from './types';

/** A metric under two models on the same items. */
export interface Difference {
  a: number;
  b: number;
  /** b - a. */
  difference: number;
  /** 95 %: 1.96 standard errors each way, bootstrapped over pairs; null for a single pair. */
  interval: [number, number] | null;
}

/** An item that one model answers rightly and the other wrongly. */
export interface Flip {
  doc_id: string;
  doc_hash: string;
  label: number;
  /** What each chose. */
  a: number;
  b: number;
  change: 'gained' | 'lost';
}

export interface Comparison {
  /** Items that both answered, joined by content; and those that only one has. */
  n: number;
  only_a: number;
  only_b: number;
  accuracy: Difference;
  /** Where both have it: accuracy by log-probability per character. */
  acc_norm?: Difference;
  conf_ece: Difference;
  brier: Difference;
  nll: Difference;
  /** Items that only a, and only b, answers rightly, and the exact two-sided p-value of McNemar's test. */
  mcnemar: { right_only_in_a: number; right_only_in_b: number; p_value: number };
  flips: Flip[];
}

/**
 * Compares two models item by item: differences with paired intervals, McNemar's test, and what flipped. Items are joined
 * by `doc_hash`, the first with the first where a content stands twice.
 * @throws UsageError when they have no item in common, or an item with other options
 */
export function compareRows(
  a: readonly Row[],
  b: readonly Row[],
  { bins = 10, resamples = 1000, seed = 0 } = {},
): Comparison {
  const others = new Map<string, Row[]>();
  for (const row of b) others.set(row.doc_hash, [...(others.get(row.doc_hash) ?? []), row]);
  const pairs = a.flatMap((row): [Row, Row][] => {
    const other = others.get(row.doc_hash)?.shift();
    return other ? [[row, other]] : [];
  });
  if (pairs.length === 0) throw new UsageError('the two runs have no item in common');
  const state = Random.seed(seed).stream('compare').state;
  const compare = (metric: (rows: readonly Row[]) => number): Difference => {
    const side = (which: 0 | 1, of: readonly [Row, Row][]) => metric(of.map((pair) => pair[which]));
    const difference = (of: readonly [Row, Row][]) => side(1, of) - side(0, of);
    const value = difference(pairs);
    const random = Random.seed(seed).at(state);
    const error = resamples > 0 ? bootstrapInterval(pairs, difference, { resamples, random })?.standard_error : null;
    const interval: Difference['interval'] = typeof error !== 'number' ? null : [value - Z * error, value + Z * error];
    return { a: side(0, pairs), b: side(1, pairs), difference: value, interval };
  };
  const mean = (of: (row: Row) => number) => (rows: readonly Row[]) =>
    rows.reduce((sum, row) => sum + of(row), 0) / rows.length;
  const flips = pairs.flatMap(([mine, other]): Flip[] => {
    if (mine.correct === other.correct) return [];
    const { doc_id, doc_hash, label } = mine;
    const change = other.correct ? 'gained' : 'lost';
    return [{ doc_id, doc_hash, label, a: mine.prediction, b: other.prediction, change }];
  });
  const lost = flips.filter(({ change }) => change === 'lost').length;
  return {
    n: pairs.length,
    only_a: a.length - pairs.length,
    only_b: b.length - pairs.length,
    accuracy: compare(mean(({ correct }) => (correct ? 1 : 0))),
    ...(pairs.every((pair) => pair.every((row) => row.prediction_norm !== undefined)) && {
      acc_norm: compare(mean(({ prediction_norm, label }) => (prediction_norm === label ? 1 : 0))),
    }),
    conf_ece: compare((rows) =>
      confEce(
        rows.map(({ probs }) => Math.max(...probs)),
        rows.map(({ correct }) => (correct ? 1 : 0)),
        bins,
      ),
    ),
    brier: compare(mean(({ probs, label }) => probs.reduce((sum, p, k) => sum + (p - (k === label ? 1 : 0)) ** 2, 0))),
    nll: compare(mean(({ probs, label }) => -Math.log(probs[label]!))),
    mcnemar: {
      right_only_in_a: lost,
      right_only_in_b: flips.length - lost,
      p_value: signTest(lost, flips.length - lost),
    },
    flips,
  };
}

/** McNemar's exact test: the probability of a split of `b + c` fair coins at least as uneven as this, both sides. */
export function signTest(b: number, c: number): number {
  const n = b + c;
  let logTerm = -n * Math.LN2; // of 0 heads
  let tail = Math.exp(logTerm);
  for (let heads = 1; heads <= Math.min(b, c); heads++) {
    logTerm += Math.log((n - heads + 1) / heads);
    tail += Math.exp(logTerm);
  }
  return Math.min(1, 2 * tail);
}
