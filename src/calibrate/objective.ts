import { tf, type Tensor1D, type Tensor2D } from '../engine/backend';
import { matmul } from '../engine/ops';
import { dispose, zip, type Tree } from '../engine/tree';
import { lengthBuckets } from '../data';
import { LOGIT_ROWS, pack, trainingPass, unembed, unembeddingOf, type Adapter, type Transformer } from '../model';
import type { Gradients } from '../train/bome';
import type { Example } from '../train/examples';
import { applyHead, headAt, headLoss, type Head } from './head';

export interface ObjectiveOptions {
  /**
   * The tokens that compete in the softmax: the whole vocabulary (the paper's C.2), or only these (Section 3), which
   * the labels then index.
   */
  choices?: Int32Array | undefined;
  /** A mean over all supervised tokens, or over examples of the mean within each. */
  reduction?: 'token' | 'example';
  /** Drops inputs of the adapter's layers; see `Dropout`. */
  dropout?: { rate: number; seed: number } | undefined;
  /** Tokens computed at once: bounds memory; gradients are summed, so results do not depend on it but for rounding. */
  batchTokens?: number;
}

/**
 * The mean cross-entropy of the labels, or (`entropy`) minus the mean entropy of the predictions, in nats, under a model
 * with an adapter theta and a head alpha; and its gradients by those that are wanted. The caller disposes of them.
 */
export function objective(
  kind: 'cross-entropy' | 'entropy',
  model: Transformer,
  { adapter, head }: { adapter: Adapter; head: Head },
  examples: readonly Example[],
  wanted: { alpha: boolean; theta: boolean },
  { choices, reduction = 'token', dropout, batchTokens = 4096 }: ObjectiveOptions = {},
): Gradients {
  const tokens = examples.reduce((sum, { labels }) => sum + labels.length, 0);
  const weightOf = ({ labels }: Example) =>
    reduction === 'token' ? 1 / tokens : 1 / (examples.length * labels.length);
  let loss = 0;
  let alpha: Tree;
  let theta: Tree;
  const lengths = examples.map(({ ids }) => ids.length);
  lengthBuckets(lengths, { maxTokens: batchTokens }).batches.forEach((batch, i) => {
    const mine = batch.map((index) => examples[index]!);
    const seeded = dropout && { rate: dropout.rate, seed: dropout.seed + i };
    const packed = pack(mine);
    const at = Int32Array.from(mine.flatMap(({ positions }, row) => positions.map((p) => packed.starts[row]! + p)));
    const pass = trainingPass(model, adapter, packed, at, { dropout: seeded, forwardOnly: !wanted.theta });
    try {
      const rows: Supervised = {
        labels: kind === 'entropy' ? undefined : Int32Array.from(mine.flatMap(({ labels }) => labels)),
        weights: Float32Array.from(mine.flatMap((example) => example.labels.map(() => weightOf(example)))),
        options: mine.flatMap(({ labels, options = choices?.length ?? 0 }) => labels.map(() => options)),
      };
      const found = throughHead(model, pass.hidden, head, rows, choices);
      loss += found.loss;
      if (wanted.alpha) alpha = accumulate(alpha, found.head);
      else dispose(found.head);
      if (wanted.theta) theta = accumulate(theta, pass.backward(found.hidden));
      found.hidden.dispose();
    } finally {
      pass.dispose();
    }
  });
  return { loss, ...(wanted.alpha && { alpha }), ...(wanted.theta && { theta }) };
}

/** sum + more, freeing both; `more` itself at first. */
function accumulate(sum: Tree, more: Tree): Tree {
  if (sum === undefined) return more;
  const total = zip((a, b) => tf.add(a, b), sum, more);
  dispose(sum);
  dispose(more);
  return total;
}

interface Supervised {
  labels: Int32Array | undefined;
  weights: Float32Array;
  options: number[];
}

/** Unembedding, head and loss of hidden states [p, hidden], a few rows at a time; gradients by them and by the head. */
function throughHead(
  model: Transformer,
  hidden: Tensor2D,
  head: Head,
  { labels, weights, options }: Supervised,
  choices: Int32Array | undefined,
): { loss: number; hidden: Tensor2D; head: Head } {
  const total = hidden.shape[0];
  let loss = 0;
  const made = tf.tidy(() => {
    const scalar = head.d.shape[0] === 1;
    const index = choices && tf.tensor1d(choices, 'int32');
    const all = unembeddingOf(model.parameters);
    const table = index ? tf.gather(all, index) : all;
    const mine = index ? headAt(head, index) : head;
    let sum: Head | undefined;
    const parts: Tensor2D[] = [];
    for (let from = 0; from < total; from += LOGIT_ROWS) {
      const to = Math.min(total, from + LOGIT_ROWS);
      const part = tf.tidy(() => {
        const z = matmul(tf.slice(hidden, [from, 0], [to - from, -1]), table, { transposeB: true });
        const absent = choices && absentOptions(options.slice(from, to), choices.length);
        const found = headLoss(z, mine, tf.tensor1d(weights.subarray(from, to)), labels?.subarray(from, to), absent);
        loss += found.loss;
        return { hidden: matmul(found.z, table), d: found.d, l: found.l };
      });
      parts.push(part.hidden);
      sum = sum ? { d: tf.add(sum.d, part.d), l: tf.add(sum.l, part.l) } : { d: part.d, l: part.l };
    }
    const spread = (t: Tensor1D): Tensor1D =>
      index && !scalar ? tf.scatterND(tf.reshape(index, [-1, 1]), t, [head.d.shape[0]]) : t;
    return { hidden: parts.length === 1 ? parts[0]! : tf.concat(parts), d: spread(sum!.d), l: spread(sum!.l) };
  });
  return { loss, hidden: made.hidden, head: { d: made.d, l: made.l } };
}

/** [p, k]: -1e30 from each row's number of options on, else 0; undefined when every row has all. */
function absentOptions(options: readonly number[], count: number): Tensor2D | undefined {
  if (options.every((n) => n === count)) return undefined;
  const mask = options.flatMap((n) => Array.from({ length: count }, (_, i) => (i < n ? 0 : -1e30)));
  return tf.tensor2d(mask, [options.length, count]);
}

/** Logits through the head at the first supervised position of each example, over its options of `letters`. */
export function choiceLogits(
  model: Transformer,
  { adapter, head }: { adapter: Adapter; head: Head },
  examples: readonly Example[],
  letters: Int32Array,
  batchTokens = 4096,
): number[][] {
  const out = new Array<number[]>(examples.length);
  const lengths = examples.map(({ ids }) => ids.length);
  for (const batch of lengthBuckets(lengths, { maxTokens: batchTokens }).batches) {
    const packed = pack(batch.map((i) => examples[i]!));
    const at = Int32Array.from(batch, (i, row) => packed.starts[row]! + examples[i]!.positions[0]!);
    const pass = trainingPass(model, adapter, packed, at, { forwardOnly: true });
    const logits = tf.tidy(() => {
      const z = unembed(model.parameters, pass.hidden, letters);
      return applyHead(z, headAt(head, tf.tensor1d(letters, 'int32'))).arraySync();
    });
    pass.dispose();
    batch.forEach((i, row) => (out[i] = logits[row]!.slice(0, examples[i]!.options)));
  }
  return out;
}
