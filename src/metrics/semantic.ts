import { CalmError, someOf } from '../base/errors';
import { binTable, type BinRow } from './bins';
import { checkNotEmpty } from './check';
import { expectedGap } from './ece';
import { argmax } from './scores';

/** The meaning of a sampled answer: any name that answers of one meaning share. 1 and "1" are the same name. */
export type ClusterLabel = string | number;

/** An open-ended question: the cluster of each of its k sampled answers, in sampling order, and which are right. */
export interface SemanticRow {
  id?: string | number;
  clusters: readonly ClusterLabel[];
  correct: Readonly<Record<string, boolean>>;
}

/** What k samples of one question say of the model's confidence; all but `entropy` (nats) in [0, 1]. */
export interface SemanticConfidence {
  /** The most frequent cluster; of several, the one that appears first. */
  majority: ClusterLabel;
  /** Whether several are the most frequent. */
  tie: boolean;
  /** The frequency of the majority cluster, from 1/k to 1: the confidence of Sem-ECE. */
  frequency_majority: number;
  /** The frequency of the first sample's cluster. */
  frequency_first_sample: number;
  /** The discrete semantic entropy H. */
  entropy: number;
  /** 1 - H / ln k, with k the number of samples; 1 for a single one. */
  entropy_conf_logM: number;
  /** exp(-H): one over the number of meanings that would be as uncertain. */
  exp_neg_entropy: number;
}

/** A checked question. Clusters are numbered by first appearance, so that nothing depends on their names. */
export interface SemanticQuestion {
  /** The cluster of each sample, k of them. */
  codes: readonly number[];
  /** Of each cluster: how many samples it has, and whether its answer is right, 0 or 1. */
  counts: readonly number[];
  right: readonly number[];
  /** The cluster of the majority. */
  selected: number;
  confidence: Omit<SemanticConfidence, 'majority'>;
}

/** How far masses may sum from 1, and how near to a bin's edge a rounded logarithm counts as the edge. */
const SUM_TOLERANCE = 1e-6;
const EDGE_TOLERANCE = 1e-12;

const EXPECTED = 'expected {"clusters": ["a", "a", "b"], "correct": {"a": true, "b": false}}';

/** Distinct labels by first appearance, and each sample's among them. @throws CalmError unless `clusters` lists names */
function numbered(clusters: unknown): { labels: ClusterLabel[]; codes: number[] } {
  if (!Array.isArray(clusters)) throw new CalmError('has no list "clusters"', { remedy: EXPECTED });
  if (clusters.length === 0) throw new CalmError('"clusters" is empty', { remedy: 'give at least one sample' });
  const seen = new Map<string, number>();
  const labels: ClusterLabel[] = [];
  const codes = clusters.map((label: unknown, i) => {
    if (typeof label !== 'string' && !(typeof label === 'number' && Number.isFinite(label))) {
      throw new CalmError(`clusters[${i}] is ${shown(label)}`, { remedy: 'expected a string or a number' });
    }
    // JSON.parse has rounded such a number already, and with it perhaps two clusters to one.
    if (Number.isInteger(label) && !Number.isSafeInteger(label)) {
      throw new CalmError(`clusters[${i}] is ${label}, too large to be exact`, { remedy: 'write it as a string' });
    }
    const code = seen.get(String(label)) ?? labels.push(label) - 1;
    seen.set(String(label), code);
    return code;
  });
  return { labels, codes };
}

/** A value as JSON writes it, cut where it is long: a label may be a whole answer. */
function shown(value: unknown): string {
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'missing');
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** How often each of the clusters occurs, the majority, and the confidences. */
function measured(
  codes: readonly number[],
  clusters: number,
): Pick<SemanticQuestion, 'counts' | 'selected' | 'confidence'> {
  const k = codes.length;
  const counts = new Array<number>(clusters).fill(0);
  for (const code of codes) counts[code]!++;
  const selected = argmax(counts); // the lowest of several, and the lowest appears first
  const most = counts[selected]!;
  const entropy = semanticEntropy(counts.map((count) => count / k));
  const confidence = {
    tie: counts.filter((count) => count === most).length > 1,
    frequency_majority: most / k,
    frequency_first_sample: counts[codes[0]!]! / k,
    entropy,
    // Rounding can take k different answers a little below 0.
    entropy_conf_logM: k === 1 ? 1 : Math.max(0, 1 - entropy / Math.log(k)),
    exp_neg_entropy: Math.exp(-entropy),
  };
  return { counts, selected, confidence };
}

function question(row: unknown): SemanticQuestion {
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    throw new CalmError('is not an object', { remedy: EXPECTED });
  }
  const { clusters, correct }: Partial<Record<'clusters' | 'correct', unknown>> = row;
  const { labels, codes } = numbered(clusters);
  if (typeof correct !== 'object' || correct === null || Array.isArray(correct)) {
    throw new CalmError('has no object "correct"', { remedy: EXPECTED });
  }
  const known = new Map<string, unknown>(Object.entries(correct));
  for (const [label, value] of known) {
    if (typeof value === 'boolean') continue;
    throw new CalmError(`correct[${shown(label)}] is ${shown(value)}`, { remedy: 'expected true or false' });
  }
  const lost = labels.filter((label) => !known.has(String(label)));
  if (lost.length > 0) {
    const names = known.size > 0 ? someOf([...known.keys()].map(shown)) : 'none';
    throw new CalmError(`"correct" has no entry for cluster ${someOf(lost.map(shown))}`, {
      remedy: `say of each cluster whether it is right (there is ${names})`,
    });
  }
  const right = labels.map((label) => (known.get(String(label)) === true ? 1 : 0));
  return { codes, right, ...measured(codes, labels.length) };
}

/**
 * Checks rows `{clusters, correct}` (other keys, and entries of clusters that were not sampled, are ignored). Rows may
 * differ in their number of samples.
 * @param where what an error calls row i (from 0)
 * @throws CalmError that names the row: no samples, a cluster of which is not said whether it is right, a value that
 * is not true or false; or when there are no rows
 */
export function checkSemanticRows(
  rows: readonly SemanticRow[] | readonly unknown[],
  where = (row: number) => `row ${row + 1}`,
): SemanticQuestion[] {
  checkNotEmpty(rows.length);
  return rows.map((row, i) => {
    try {
      return question(row);
    } catch (error) {
      if (!(error instanceof CalmError)) throw error;
      throw new CalmError(`${where(i)}: ${error.message}`, { remedy: error.remedy });
    }
  });
}

/**
 * Semantic entropy in nats: -sum p ln p over the masses of clusters (Kuhn et al. 2023). Of cluster frequencies it is the
 * discrete semantic entropy (Farquhar et al. 2024).
 * @throws CalmError for masses that are negative or do not sum to 1 within 1e-6, as when repeats were added up twice
 */
export function semanticEntropy(masses: readonly number[]): number {
  const sum = masses.reduce((a, b) => a + b, 0);
  if (!masses.every((p) => p >= 0) || !(Math.abs(sum - 1) <= SUM_TOLERANCE)) {
    throw new CalmError(`the masses of the clusters are ${someOf(masses.map(String))}, which sum to ${sum}`, {
      remedy: 'expected probabilities that sum to 1, each distinct answer counted once',
    });
  }
  return masses.reduce((entropy, p) => (p > 0 ? entropy - p * Math.log(p) : entropy), 0);
}

/**
 * The confidence of one question by its samples.
 * @param clusters the cluster of each of the k samples, in sampling order
 * @throws CalmError without samples, or for a label that is neither a string nor a number
 */
export function semanticConfidence(clusters: readonly ClusterLabel[]): SemanticConfidence {
  const { labels, codes } = numbered(clusters);
  const { selected, confidence } = measured(codes, labels.length);
  return { majority: labels[selected]!, ...confidence };
}

/**
 * Which confidence is compared with which outcome. One pair a question, compared with whether the majority's answer is
 * right: `frequency_majority`, `entropy_conf_logM`, `exp_neg_entropy`; with whether the first sample is:
 * `frequency_first_sample`. One pair a sample: `per_sample`, the frequency of its own cluster and whether it is right.
 */
export const SEMANTIC_VARIANTS = [
  'frequency_majority',
  'per_sample',
  'frequency_first_sample',
  'entropy_conf_logM',
  'exp_neg_entropy',
] as const;
export type SemanticVariant = (typeof SEMANTIC_VARIANTS)[number];

/** Pairs (confidence in [0, 1], outcome 0 or 1) of checked questions: one each, or one a sample for `per_sample`. */
export function semanticPairs(
  questions: readonly SemanticQuestion[],
  variant: SemanticVariant = 'frequency_majority',
): { confidence: number[]; correct: number[] } {
  if (variant === 'per_sample') {
    return {
      confidence: questions.flatMap(({ codes, counts }) => codes.map((code) => counts[code]! / codes.length)),
      correct: questions.flatMap(({ codes, right }) => codes.map((code) => right[code]!)),
    };
  }
  const first = variant === 'frequency_first_sample';
  return {
    confidence: questions.map(({ confidence }) => confidence[variant]),
    correct: questions.map(({ codes, right, selected }) => right[first ? codes[0]! : selected]!),
  };
}

/**
 * The reliability table behind a Sem-ECE. A frequency is count/k in one division and an edge m/M in another, so equal
 * fractions are equal doubles and 6/20 falls into [0.3, 0.4); where logarithms round, 1e-12 from an edge is the edge.
 */
export function semanticTable(
  questions: readonly SemanticQuestion[],
  { bins = 10, variant = 'frequency_majority' }: { bins?: number; variant?: SemanticVariant } = {},
): BinRow[] {
  const { confidence, correct } = semanticPairs(questions, variant);
  const onEdge = (value: number) => {
    const edge = Math.round(value * bins) / bins;
    return Math.abs(value - edge) <= EDGE_TOLERANCE ? edge : value;
  };
  return binTable(confidence.map(onEdge), correct, bins);
}

/**
 * Semantic expected calibration error over equal-width bins (CALM paper, Eq. 15). `frequency_majority` takes the
 * "selected answer" to be the majority's; `per_sample` takes the equation at its word: the fraction of the samples in a
 * bin whose answer is right, every sample counting the same.
 * @throws CalmError that names the row at fault (see `checkSemanticRows`), or on a number of bins below 1
 */
export function semanticEce(
  rows: readonly SemanticRow[] | readonly unknown[],
  options: { bins?: number; variant?: SemanticVariant } = {},
): number {
  return expectedGap(semanticTable(checkSemanticRows(rows), options));
}
