import * as fs from 'node:fs';
import * as path from 'node:path';

interface Side {
  ece: number;
  mce: number;
  reliability: { count: number; mean_conf: number | null; acc: number | null }[];
}

type ByBins<T> = Record<'10' | '15', T>;

export interface ProbsCase {
  kind: 'probs';
  id: string;
  probs: number[][];
  labels: number[];
  logits?: number[][];
  accuracy: number;
  bins: ByBins<{ ge_lt: Side; adaptive: { chunk_array_split: number } }>;
  classwise: ByBins<{ ge_lt: { per_class: number[]; mean: number; max: number } }>;
  classwise_total_reliability: ByBins<{ ge_lt: Side }>;
  brier_sum: number;
  brier_top_label: number;
  nll: number | 'Infinity';
  entropy_mean_nats: number;
}

export interface ConfidenceCase {
  kind: 'conf_correct';
  id: string;
  conf: number[];
  correct: number[];
  accuracy: number;
  bins: ProbsCase['bins'];
}

export interface TemperatureCase {
  kind: 'temperature';
  id: string;
  logits: number[][];
  labels: number[];
  bounds: [number, number];
  T_exact: number | null;
  location: 'interior' | 'lower' | 'upper' | 'flat';
  T_scipy_bounded: number;
  nll_T1: number;
  nll_opt: number;
  nll_probe: Record<string, number>;
}

export interface RejectCase {
  kind: 'reject';
  id: string;
  probs?: unknown[][];
  logits?: unknown[][];
  labels?: number[];
  conf?: number[];
  correct?: number[];
  n_bins?: number;
}

export interface Reference {
  cases: (ProbsCase | ConfidenceCase | TemperatureCase | RejectCase | { kind: 'semantic'; id: string })[];
  edge_table: { rows: { conf: number; ge_lt_10: number; ge_lt_15: number }[] };
}

export function fixture<T>(name: string): T {
  return JSON.parse(fs.readFileSync(path.join(__dirname, '../fixtures/metrics', name), 'utf8')) as T;
}

const oracle = path.join(__dirname, '../../../shared/oracle/metrics/public.json');

/** The references to run a test over: the selection in fixtures, and the whole oracle where it is. */
export const references: { name: string; skip: boolean; read: () => Reference }[] = [
  { name: 'fixtures', skip: false, read: () => fixture<Reference>('reference.json') },
  {
    name: 'whole oracle in ../shared (skipped where that is absent)',
    skip: !fs.existsSync(oracle),
    read: () => JSON.parse(fs.readFileSync(oracle, 'utf8')) as Reference,
  },
];

export function casesOf<K extends Reference['cases'][number]['kind']>(
  reference: Reference,
  kind: K,
): Extract<Reference['cases'][number], { kind: K }>[] {
  return reference.cases.filter((c): c is Extract<typeof c, { kind: K }> => c.kind === kind);
}

/** Absolute tolerance: 1e-12, and 1e-9 for 100 values or more. */
export function tolerance(n: number): number {
  return n >= 100 ? 1e-9 : 1e-12;
}
