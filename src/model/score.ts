import { tf, type Tensor2D } from '../engine/backend';
import { afterPrefix, type Prefix } from './cache';
import type { ModelConfig } from './config';
import { pack, type Packed, type Sequence } from './packed';
import { forward, unembed, type KeyValueCache, type Parameters } from './transformer';

/** What every function here needs of a model. */
export interface Transformer {
  config: ModelConfig;
  parameters: Parameters;
}

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
  const sequences = prompts.map((ids) => ({ ids }));
  const { rest, cache } = afterPrefix(sequences, prefix);
  const packed = pack(rest, cache?.past);
  const last = Int32Array.from(packed.starts, (_, row) => (packed.starts[row + 1] ?? packed.n) - 1);
  const logits = tf.tidy(() =>
    unembed(model.parameters, forward(model.config, model.parameters, packed, last, { cache }).hidden, tokens),
  );
  const flat = logits.dataSync<'float32'>();
  logits.dispose();
  const size = flat.length / prompts.length;
  return prompts.map((_, i) => flat.slice(i * size, (i + 1) * size));
}

/** The log-probabilities of one continuation. */
export interface Continuation {
  /** Natural log of the probability of each token given all before it. */
  tokenLogProbs: number[];
  /** Whether each token is the model's first choice. */
  greedy: boolean[];
}

/**
 * Scores the branches of each sequence: log p(branch | ids), token by token. The shared part is computed once.
 * @param prefix what the ids of every sequence begin with, already computed
 * @throws RangeError when some `ids` are empty, for a first token needs something to condition on
 */
export function scoreBranches(model: Transformer, sequences: readonly Sequence[], prefix?: Prefix): Continuation[][] {
  const { rest, cache } = afterPrefix(sequences, prefix);
  const packed = pack(rest, cache?.past);
  const at: number[] = []; // packed index of each scored position
  const labels: { position: number; token: number }[] = []; // position: index into `at`
  const counts: number[][] = [];
  rest.forEach(({ ids, branches = [] }, row) => {
    let next = packed.starts[row]! + ids.length;
    const trunk = at.push(next - 1) - 1;
    counts.push(branches.map((branch) => branch.length));
    for (const branch of branches) {
      branch.forEach((token, i) => {
        const position = i === 0 ? trunk : at.push(next + i - 1) - 1;
        labels.push({ position, token });
      });
      next += branch.length;
    }
  });
  const scores = scorePositions(model, forwardAt(model, packed, at, cache), labels);
  let read = 0;
  return counts.map((lengths) =>
    lengths.map((length) => {
      const part = scores.slice(read, (read += length));
      return { tokenLogProbs: part.map((s) => s.logProb), greedy: part.map((s) => s.greedy) };
    }),
  );
}

function forwardAt(model: Transformer, packed: Packed, at: number[], cache: KeyValueCache | undefined): Tensor2D {
  return forward(model.config, model.parameters, packed, Int32Array.from(at), { cache }).hidden;
}

/**
 * Log-softmax of the logits at `hidden` [p, hidden], read off at the labels. Disposes `hidden`.
 * The sum over the vocabulary runs in float32, the final subtraction in float64.
 */
function scorePositions(
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
  hidden.dispose();
  return out;
}
