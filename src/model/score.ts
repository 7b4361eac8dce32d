import { tf, type Tensor2D } from '../engine/backend';
import { cacheOf, type Prefix } from './cache';
import { pack } from './packed';
import { forward, unembed, type Transformer } from './transformer';
import { growTrees } from './tree';

/** Vocabulary rows of logits held at once: bounds memory at 128 x vocabulary x 4 bytes. */
export const LOGIT_ROWS = 128;

/**
 * Logits at the last token of each prompt.
 * @param tokens the vocabulary entries wanted; all when absent
 * @param prefix what every prompt begins with, already computed
 * @returns one Float32Array per prompt, [tokens.length] or [vocab]
 * @throws RangeError for an empty prompt
 */
export function lastLogits(
  model: Transformer,
  prompts: readonly (readonly number[])[],
  tokens?: Int32Array,
  prefix?: Prefix,
): Float32Array[] {
  const { hidden, rowOf } = hiddenStates(
    model,
    prompts,
    prompts.map((ids) => [ids.length - 1]),
    prefix,
  );
  const logits = tf.tidy(() => unembed(model.parameters, hidden, tokens));
  hidden.dispose();
  const flat = logits.dataSync<'float32'>();
  logits.dispose();
  const size = logits.shape[1];
  return rowOf.map(([row]) => flat.slice(row! * size, (row! + 1) * size));
}

/**
 * Final hidden states at chosen tokens of sequences; what several of them begin with is computed once.
 * @param wanted per sequence, the indices of its tokens
 * @returns `hidden` [p, hidden], and which of its rows is each wanted one's
 */
function hiddenStates(
  model: Transformer,
  sequences: readonly (readonly number[])[],
  wanted: readonly (readonly number[])[],
  prefix: Prefix | undefined,
): { hidden: Tensor2D; rowOf: number[][] } {
  const known = prefix?.length ?? 0;
  const trees = growTrees(sequences.map((ids) => ids.slice(known)));
  const cache = cacheOf(prefix, trees.length);
  const packed = pack(
    trees.map(({ sequence }) => sequence),
    cache?.past,
  );
  const rows = new Map<number, number>(); // of `hidden`, by packed token: a token that several share is wanted once
  const rowOf = sequences.map((): number[] => []);
  trees.forEach(({ paths }, t) => {
    for (const { index, places } of paths) {
      rowOf[index] = wanted[index]!.map((i) => {
        const token = packed.starts[t]! + places[i - known]!;
        const row = rows.get(token) ?? rows.size;
        rows.set(token, row);
        return row;
      });
    }
  });
  const { hidden } = forward(model.config, model.parameters, packed, Int32Array.from(rows.keys()), { cache });
  return { hidden, rowOf };
}

/** The log-probabilities of a continuation. */
export interface Continuation {
  /** Natural log of the probability of each token given all before it. */
  tokenLogProbs: number[];
  /** Whether each token is the model's first choice. */
  greedy: boolean[];
}

/** Token ids of a text (not empty) and of what continues it. */
export interface ScoreRequest {
  context: readonly number[];
  continuation: readonly number[];
}

/** The tokens of a request that are read: the last one is only predicted. */
export function tokensRead({ context, continuation }: ScoreRequest): number[] {
  return [...context, ...continuation.slice(0, -1)];
}

/**
 * Scores continuations: log p(continuation | context), token by token.
 * @param prefix what every context begins with, already computed; each has a token of its own after it
 * @throws RangeError for an empty context, for a first token needs something to condition on
 */
export function scoreContinuations(
  model: Transformer,
  requests: readonly ScoreRequest[],
  prefix?: Prefix,
): Continuation[] {
  const empty = requests.findIndex(({ context }) => context.length === 0);
  if (empty >= 0) throw new RangeError(`request ${empty} has no context, so there is nothing to condition on`);
  const wanted = requests.map(({ context, continuation }) => continuation.map((_, i) => context.length - 1 + i));
  const { hidden, rowOf } = hiddenStates(model, requests.map(tokensRead), wanted, prefix);
  const labels = requests.flatMap(({ continuation }, r) =>
    continuation.map((token, i) => ({ position: rowOf[r]![i]!, token })),
  );
  const scores = labelScores(model, hidden, labels);
  hidden.dispose();
  let read = 0;
  return requests.map(({ continuation }) => {
    const mine = scores.slice(read, (read += continuation.length));
    return { tokenLogProbs: mine.map((s) => s.logProb), greedy: mine.map((s) => s.greedy) };
  });
}

/**
 * Log-softmax of the logits at `hidden` [p, hidden], read off at the labels.
 * The sum over the vocabulary runs in float32, the final subtraction in float64.
 */
export function labelScores(
  model: Transformer,
  hidden: Tensor2D,
  labels: { position: number; token: number }[],
): { logProb: number; greedy: boolean }[] {
  const out = new Array<{ logProb: number; greedy: boolean }>(labels.length);
  const total = hidden.shape[0];
  for (let from = 0; from < total; from += LOGIT_ROWS) {
    const rows = Math.min(LOGIT_ROWS, total - from);
    const mine = labels.flatMap(({ position }, i) => (position >= from && position < from + rows ? [i] : []));
    if (mine.length === 0) continue;
    const [top, spread, picked] = tf.tidy(() => {
      const logits = unembed(model.parameters, tf.slice(hidden, [from, 0], [rows, -1]));
      const top = tf.max(logits, 1, true);
      const spread = tf.sum(tf.exp(tf.sub(logits, top)), 1);
      const where = mine.map((i) => [labels[i]!.position - from, labels[i]!.token]);
      return [top, spread, tf.gatherND(logits, tf.tensor2d(where, undefined, 'int32'))];
    });
    const [max, sum, value] = [top, spread, picked].map((t) => t.dataSync<'float32'>()) as [
      Float32Array,
      Float32Array,
      Float32Array,
    ];
    tf.dispose([top, spread, picked]);
    mine.forEach((i, j) => {
      const row = labels[i]!.position - from;
      out[i] = { logProb: value[j]! - max[row]! - Math.log(sum[row]!), greedy: value[j] === max[row] };
    });
  }
  return out;
}
