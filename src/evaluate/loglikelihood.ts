import { startProgress, type Progress } from '../base/progress';
import { lengthBuckets } from '../data';
import { requestKey, type ResponseCache } from './cache';
import {
  growTrees,
  scoreContinuations,
  tokensRead,
  withSharedPrefix,
  type Prefix,
  type ScoreRequest,
  type Transformer,
} from '../model';

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
  /** The progress that requests are counted in, one each; a bar of their own when absent. */
  progress?: Progress;
  /** Where answers are kept and looked up, see `openCache`. */
  cache?: ResponseCache | undefined;
}

/** Tokens of a shared prefix that a batch repeats, one copy a row: bounds the memory of its keys and values. */
const MOST_COPIES = 2 ** 16;

/**
 * Runs `work` on batches of similar length, longest first. Texts that begin alike come together, so that it is computed
 * once; what all contexts begin with is computed once for all batches.
 * @param texts the token ids that are read: each a context and, perhaps, more
 * @param contexts the beginnings of the texts that end with a token whose prediction is wanted
 */
export function inBatches(
  model: Transformer,
  texts: readonly (readonly number[])[],
  contexts: readonly (readonly number[])[],
  { batchTokens = 2048, progress }: BatchOptions,
  work: (items: number[], prefix: Prefix | undefined) => void,
): void {
  if (texts.length === 0) return;
  withSharedPrefix(model, contexts, (prefix) => {
    const shared = prefix?.length ?? 0;
    const trees = growTrees(
      texts.map((ids) => ids.slice(shared)),
      batchTokens,
    );
    const sizes = trees.map(({ size }) => size);
    const maxRows = shared > 0 ? Math.max(1, Math.floor(MOST_COPIES / shared)) : Infinity;
    for (const batch of lengthBuckets(sizes, { maxTokens: batchTokens, maxRows }).batches) {
      const items = batch.flatMap((t) => trees[t]!.paths.map(({ index }) => index));
      work(items, prefix);
      progress?.add(items.length);
    }
  });
}

/**
 * The answers to requests, those of the cache where there is one.
 * @param keyOf what each request is known by, see `requestKey`
 * @param compute answers the `missing` requests, each by a call of `found`
 */
export function recall<V>(
  { cache, label = 'scoring', progress, ...options }: BatchOptions,
  count: number,
  keyOf: (i: number) => string,
  compute: (missing: number[], found: (i: number, answer: V) => void, options: BatchOptions) => void,
): V[] {
  const own = progress ? undefined : startProgress(label, count);
  const counted = { ...options, progress: progress ?? own! };
  const all = Array.from({ length: count }, (_, i) => i);
  let out = new Array<V>(count);
  if (cache) {
    out = cache.recall(all.map(keyOf), (missing, found) => {
      counted.progress.add(count - missing.length, true);
      compute(missing, found, counted);
    });
  } else {
    compute(all, (i, answer) => (out[i] = answer), counted);
  }
  own?.stop();
  return out;
}

/**
 * Scores continuations; what requests begin with alike (the options of a question) is computed once.
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
  const readable = requests.flatMap(({ context, continuation }, i) => {
    // The last token is only predicted, never read, so it needs no place.
    const room = model.config.maxPositions - (continuation.length - 1);
    if (room >= 1) return [{ i, request: { context: context.slice(-room), continuation } }];
    found(i, { logProb: -Infinity, tokenLogProbs: [], isGreedy: false, truncated: context.length });
    return [];
  });
  const asked = readable.map(({ request }) => request);
  const contexts = asked.map(({ context }) => context);
  inBatches(model, asked.map(tokensRead), contexts, options, (batch, prefix) => {
    const mine = batch.map((j) => asked[j]!);
    scoreContinuations(model, mine, prefix).forEach(({ tokenLogProbs, greedy }, k) => {
      const { i, request } = readable[batch[k]!]!;
      const logProb = tokenLogProbs.reduce((a, lp) => a + lp, 0);
      const truncated = requests[i]!.context.length - request.context.length;
      found(i, { logProb, tokenLogProbs, isGreedy: greedy.every(Boolean), truncated });
    });
  });
}
