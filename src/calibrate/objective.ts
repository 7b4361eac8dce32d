import { tf, type Tensor1D, type Tensor2D } from '../engine/backend';
import { matmul } from '../engine/ops';
import { dispose, zip, type Tree } from '../engine/tree';
import { lengthBuckets } from '../data';
import { LOGIT_ROWS, pack, trainingPass, unembed, unembeddingOf, type Adapter, type Transformer } from '../model';
import type { Gradients } from '../train/bome';
import type { Example } from '../train/examples';
import { absentOptions, type Criterion } from './criterion';
import { applyHead, headAt, throughHead, type Head } from './head';

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

/** A model with an adapter theta and, where it has one, a head alpha. */
export interface State {
  adapter: Adapter;
  head?: Head | undefined;
}

/**
 * The mean of a criterion over the supervised tokens of examples, and its gradients by those that are wanted (alpha: the
 * head's). The caller disposes of them.
 */
export function objective(
  criterion: Criterion,
  model: Transformer,
  { adapter, head }: State,
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
      const found = atPositions(criterion, model, pass.hidden, head, supervised(mine, weightOf), choices);
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

/** The supervised positions of examples, one after the other. */
function supervised(examples: readonly Example[], weightOf: (example: Example) => number): Supervised {
  const each = <T>(of: (example: Example, i: number) => T) =>
    examples.flatMap((example) => example.labels.map((_, i) => of(example, i)));
  return {
    labels: Int32Array.from(each(({ labels }, i) => labels[i]!)),
    weights: Float32Array.from(each(weightOf)),
    options: each(({ options = Infinity }) => options),
    smoothing: Float32Array.from(each(({ smoothing }, i) => smoothing?.[i] ?? 0)),
  };
}

/** sum + more, freeing both; `more` itself at first. */
export function accumulate(sum: Tree, more: Tree): Tree {
  if (sum === undefined) return more;
  const total = zip((a, b) => tf.add(a, b), sum, more);
  dispose(sum);
  dispose(more);
  return total;
}

/** What a loss needs to know of positions, [p] each. */
export interface Supervised {
  labels: Int32Array;
  weights: Float32Array;
  options: number[];
  smoothing: Float32Array;
}

/**
 * Unembedding, head (if any) and criterion of hidden states [p, hidden], a few rows at a time; gradients by them and by
 * the head.
 */
export function atPositions(
  criterion: Criterion,
  model: Transformer,
  hidden: Tensor2D,
  head: Head | undefined,
  { labels, weights, options, smoothing }: Supervised,
  choices: Int32Array | undefined,
): { loss: number; hidden: Tensor2D; head: Head | undefined } {
  const total = hidden.shape[0];
  let loss = 0;
  const made = tf.tidy(() => {
    const index = choices && tf.tensor1d(choices, 'int32');
    const all = unembeddingOf(model.parameters);
    const table = index ? tf.gather(all, index) : all;
    const mine = index && head ? headAt(head, index) : head;
    let sum: Head | undefined;
    const parts: Tensor2D[] = [];
    for (let from = 0; from < total; from += LOGIT_ROWS) {
      const to = Math.min(total, from + LOGIT_ROWS);
      const part = tf.tidy(() => {
        const z = matmul(tf.slice(hidden, [from, 0], [to - from, -1]), table, { transposeB: true });
        const rows = {
          weights: tf.tensor1d(weights.subarray(from, to)),
          labels: labels.subarray(from, to),
          options: options.slice(from, to),
          smoothing: smoothing.subarray(from, to),
        };
        const absent = choices && absentOptions(rows.options, to - from, choices.length);
        const found = throughHead(z, mine, criterion, rows, absent);
        loss += found.loss;
        return { hidden: matmul(found.z, table), head: found.head };
      });
      parts.push(part.hidden);
      const more = part.head;
      sum = sum && more ? { d: tf.add(sum.d, more.d), l: tf.add(sum.l, more.l) } : more;
    }
    const spread = (t: Tensor1D, size: number): Tensor1D =>
      index && size > 1 ? tf.scatterND(tf.reshape(index, [-1, 1]), t, [size]) : t;
    const size = head?.d.shape[0] ?? 0;
    return {
      hidden: parts.length === 1 ? parts[0]! : tf.concat(parts),
      head: sum ? { d: spread(sum.d, size), l: spread(sum.l, size) } : undefined,
    };
  });
  return { loss, hidden: made.hidden, head: made.head };
}

/** Logits through the head at the first supervised position of each example, over its options of `letters`. */
export function choiceLogits(
  model: Transformer,
  { adapter, head }: State,
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
      return (head ? applyHead(z, headAt(head, tf.tensor1d(letters, 'int32'))) : z).arraySync();
    });
    pass.dispose();
    batch.forEach((i, row) => (out[i] = logits[row]!.slice(0, examples[i]!.options)));
  }
  return out;
}
