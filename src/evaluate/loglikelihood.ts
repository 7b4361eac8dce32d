import { startProgress } from '../base/progress';
import { lengthBuckets } from '../data';
import { requestKey, type ResponseCache } from './cache';
import { scoreBranches, withSharedPrefix, type Prefix, type Transformer } from '../model';

/** Token ids of a text (not empty) and of what continues it. */
export interface ScoreRequest {
  context: readonly number[];
  continuation: readonly number[];
}

/** log p(continuation | context), natural. */
export interface LogLikelihood {
  /** The sum over tokens; -Infinity where the continuation alone exceeds the model's context. */
  logProb: number;
  tokenLogProbs: number[];
  /** Whether every token is the model's first choice. */
  isGreedy: boolean;
  /** Tokens cut from the left of the context to make room. */
  truncated: number;
}

export interface BatchOptions {
  /** Tokens computed at once: bounds memory; results do not depend on it. */
  batchTokens?: number;
  /** What the progress bar says. */
  label?: string;
  /** Where answers are kept and looked up, see `openCache`. */
  cache?: ResponseCache | undefined;
}

/** Tokens of a shared prefix that a batch repeats, one copy a row: bounds the memory of its keys and values. */
const MOST_COPIES = 2 ** 16;

/**
 * Runs `work` on batches of similar length, longest first, and shows how many of `texts` are done. What all texts begin
 * with is computed once.
 * @param more tokens that each text's branches add to it
 */
export function inBatches(
  model: Transformer,
  texts: readonly (readonly number[])[],
  more: readonly number[],
  { batchTokens = 2048, label = 'scoring' }: BatchOptions,
  work: (items: number[], prefix: Prefix | undefined) => void,
): void {
  if (texts.length === 0) return;
  const progress = startProgress(label, texts.length);
  withSharedPrefix(model, texts, (prefix) => {
    const shared = prefix?.length ?? 0;
    const lengths = texts.map((ids, i) => ids.length - shared + more[i]!);
    const maxRows = shared > 0 ? Math.max(1, Math.floor(MOST_COPIES / shared)) : Infinity;
    let done = 0;
    for (const items of lengthBuckets(lengths, { maxTokens: batchTokens, maxRows }).batches) {
      work(items, prefix);
      progress.update((done += items.length));
    }
  });
  progress.stop();
}

interface Group {
  ids: readonly number[];
  branches: (readonly number[])[];
  /** Index of the request of each branch. */
  requests: number[];
}

/**
 * The answers to requests, those of the cache where there is one.
 * @param keyOf what each request is known by, see `requestKey`
 * @param compute answers the `missing` requests, each by a call of `found`
 */
export function recall<V>(
  { cache, label = 'scoring', ...options }: BatchOptions,
  count: number,
  keyOf: (i: number) => string,
  compute: (missing: number[], found: (i: number, answer: V) => void, options: BatchOptions) => void,
): V[] {
  const all = Array.from({ length: count }, (_, i) => i);
  if (!cache) {
    const out = new Array<V>(count);
    compute(all, (i, answer) => (out[i] = answer), { label, ...options });
    return out;
  }
  return cache.recall(all.map(keyOf), (missing, found) => {
    const known = count - missing.length;
    compute(missing, found, { label: known > 0 ? `${label} (${known} known)` : label, ...options });
  });
}

/**
 * Scores continuations; requests that share a context (the options of a question) compute it once.
 * @throws RangeError for a context or continuation without tokens: nothing would score a perfect 0
 */
export function loglikelihood(
  model: Transformer,
  requests: readonly ScoreRequest[],
  options: BatchOptions = {},
): LogLikelihood[] {
  if (requests.some(({ context, continuation }) => context.length === 0 || continuation.length === 0)) {
    throw new RangeError('loglikelihood: nothing to score');
  }
  const keyOf = (i: number) => requestKey('loglikelihood', requests[i]!.context, requests[i]!.continuation);
  return recall(options, requests.length, keyOf, (missing, found, batching) => {
    const asked = missing.map((i) => requests[i]!);
    score(model, asked, batching, (j, answer: LogLikelihood) => found(missing[j]!, answer));
  });
}

function score(
  model: Transformer,
  requests: readonly ScoreRequest[],
  options: BatchOptions,
  found: (i: number, answer: LogLikelihood) => void,
): void {
  const groups = new Map<string, Group>();
  const truncated = requests.map(({ context, continuation }, i) => {
    // The last token is only predicted, never read, so it needs no place.
    const room = model.config.maxPositions - (continuation.length - 1);
    if (room < 1) {
      found(i, { logProb: -Infinity, tokenLogProbs: [], isGreedy: false, truncated: context.length });
      return context.length;
    }
    const ids = context.slice(-room);
    const key = ids.join();
    const group = groups.get(key) ?? { ids, branches: [], requests: [] };
    groups.set(key, group);
    group.branches.push(continuation);
    group.requests.push(i);
    return context.length - ids.length;
  });
  const all = [...groups.values()];
  const contexts = all.map(({ ids }) => ids);
  const added = all.map(({ branches }) => branches.reduce((sum, b) => sum + b.length, 0));
  inBatches(model, contexts, added, options, (batch, prefix) => {
    const mine = batch.map((g) => all[g]!);
    scoreBranches(model, mine, prefix).forEach((continuations, g) =>
      continuations.forEach(({ tokenLogProbs, greedy }, b) => {
        const i = mine[g]!.requests[b]!;
        const logProb = tokenLogProbs.reduce((a, lp) => a + lp, 0);
        found(i, { logProb, tokenLogProbs, isGreedy: greedy.every(Boolean), truncated: truncated[i]! });
      }),
    );
  });
}
