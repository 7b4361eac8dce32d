import { tf, type Tensor, type Tensor2D, type Tensor4D } from '../engine/backend';
import {
  batchMatmul,
  conjugate,
  constants,
  gatherRows,
  rotaryTable,
  rotate,
  type Constants,
  type RotaryTable,
} from '../engine/ops';
import { rotaryFrequencies, type ModelConfig } from './config';
import type { Packed } from './packed';

/** Queries `from` to `from + count` of every row: their attention is computed at once. */
interface Part {
  /** No query sees a token that comes after it, so the keys end with the last query. */
  seen: number;
  /** Which head of which token (a row of [n * (heads + 2 kvHeads), headDim]) each query is. */
  queries: Tensor; // [rows, kvHeads, group * count]
  /** What is added to the scores: 0 where a query sees a key. */
  mask: () => Tensor4D; // [rows, 1, group * count, seen]
}

/** How the tokens of a batch are laid out for attention: the same for all layers. */
export interface Grid {
  packed: Packed;
  shared: Constants;
  rotary: RotaryTable;
  keys: Tensor; // [rows, kvHeads, width], as `queries`
  values: Tensor;
  parts: Part[];
  /** The way back: where each head of each token stands in the outputs of all parts. */
  tokens: Tensor; // [n, heads]
}

/** Added to a hidden score; finite, so that a grid row which is all padding stays a number. */
const HIDDEN = -1e30;

/**
 * Lays out a packed batch after `pastWidth` places of a cache.
 * @param mostScores attention scores computed at once; queries are taken in parts to keep below it
 */
export function layGrid(config: ModelConfig, packed: Packed, pastWidth: number, mostScores: number): Grid {
  const { n, rows, width } = packed;
  const { heads, kvHeads, headDim } = config;
  const group = heads / kvHeads;
  const all = heads + 2 * kvHeads;
  const rotations = Array.from({ length: all }, (_, h) =>
    // Scores are divided by sqrt(d): done here, to the queries, it costs nothing.
    ({ turned: h < heads + kvHeads, scale: h < heads ? 1 / Math.sqrt(headDim) : 1 }),
  );
  const across = pastWidth + width;
  const hidden = tf.tensor4d(packed.hidden, [rows, 1, width, across], 'bool');
  const step = Math.min(width, Math.max(1, Math.floor(mostScores / (rows * heads * across))));
  const parts = Array.from({ length: Math.ceil(width / step) }, (_, i): Part => {
    const from = i * step;
    const count = Math.min(step, width - from);
    const seen = pastWidth + from + count;
    const mask = (): Tensor4D =>
      tf.tidy(() => {
        const mine = tf.cast(tf.slice(hidden, [0, 0, from, 0], [rows, 1, count, seen]), 'float32');
        return tf.tile<Tensor4D>(tf.mul<Tensor4D>(mine, HIDDEN), [1, 1, group, 1]);
      });
    // Made once for all layers, but for long texts, whose mask in float32 would be the largest tensor of all.
    const once = step === width ? mask() : undefined;
    const queries = tf.tensor3d(rowsOf(packed, all, 0, heads, from, count), [rows, kvHeads, group * count], 'int32');
    return { seen, queries, mask: () => once ?? mask() };
  });
  const place = (first: number) => tf.tensor3d(rowsOf(packed, all, first, kvHeads), [rows, kvHeads, width], 'int32');
  const back = new Int32Array(n * heads);
  for (let t = 0; t < n; t++) {
    for (let h = 0; h < heads; h++) back[t * heads + h] = outputRow(packed, heads, step, t, h);
  }
  return {
    packed,
    shared: constants(config.hiddenSize, config.normEps),
    rotary: rotaryTable(packed.positions, rotaryFrequencies(config), rotations),
    keys: place(heads),
    values: place(heads + kvHeads),
    parts,
    tokens: tf.tensor2d(back, [n, heads], 'int32'),
  };
}

/** The rows of [n * all, headDim] that `count` places of every row of the grid take, for `number` heads. */
function rowsOf(packed: Packed, all: number, first: number, number: number, from = 0, count = packed.width) {
  const { rows, width, sources } = packed;
  const index = new Int32Array(rows * number * count);
  for (let row = 0, at = 0; row < rows; row++) {
    for (let head = first; head < first + number; head++) {
      for (let w = from; w < from + count; w++) index[at++] = sources[row * width + w]! * all + head;
    }
  }
  return index;
}

/** Where head h of token t stands among the outputs of all parts, which are of `step` queries each. */
function outputRow({ rows, width, slots }: Packed, heads: number, step: number, t: number, h: number): number {
  const w = slots[t]! % width;
  const row = (slots[t]! - w) / width;
  const from = w - (w % step);
  const count = Math.min(step, width - from);
  return rows * heads * from + (row * heads + h) * count + (w - from);
}

/** What attention needs to be run backwards. */
export interface Attended {
  attended: Tensor2D; // [n, heads * headDim]
  /** Queries (scaled), keys and values of every token, rotated. */
  rotated: Tensor2D; // [n * (heads + 2 kvHeads), headDim]
  keys: Tensor4D; // [rows, kvHeads, past + width, headDim]
  values: Tensor4D;
}

/**
 * Grouped-query attention of qkv [n, (heads + 2 kvHeads) * headDim] -> [n, heads * headDim], after a cache's keys and
 * values [rows or 1, kvHeads, past, headDim].
 */
export function attention(
  config: ModelConfig,
  qkv: Tensor2D,
  grid: Grid,
  past: { keys: Tensor; values: Tensor } | undefined,
): Attended {
  const { heads, kvHeads, headDim } = config;
  const { n, rows } = grid.packed;
  const rotated = rotate(qkv, grid.rotary);
  const place = (index: Tensor): Tensor4D => gatherRows(rotated, index, grid.shared);
  const [newKeys, newValues] = [place(grid.keys), place(grid.values)];
  const after = (before: Tensor4D, added: Tensor4D) =>
    tf.concat([before.shape[0] === rows ? before : tf.tile(before, [rows, 1, 1, 1]), added], 2);
  const keys = past ? after(past.keys as Tensor4D, newKeys) : newKeys;
  const values = past ? after(past.values as Tensor4D, newValues) : newValues;
  const first = (t: Tensor4D, seen: number) =>
    seen === t.shape[2] ? t : tf.slice(t, [0, 0, 0, 0], [rows, kvHeads, seen, headDim]);
  const outputs = grid.parts.map((part) =>
    tf.tidy((): Tensor2D => {
      const weights = attentionWeights(place(part.queries), first(keys, part.seen), part);
      return tf.reshape(batchMatmul(weights, first(values, part.seen)), [-1, headDim]);
    }),
  );
  const attended = gatherRows(outputs.length === 1 ? outputs[0]! : tf.concat(outputs), grid.tokens, grid.shared);
  return { attended: tf.reshape(attended, [n, heads * headDim]), rotated, keys, values };
}

/** The query heads that share a key head are stacked along the query axis, so keys are never repeated. */
function attentionWeights(queries: Tensor4D, keys: Tensor4D, { mask }: Part): Tensor4D {
  return tf.softmax(tf.add<Tensor4D>(batchMatmul(queries, keys, { transposeB: true }), mask()));
}

/** Where gradients go: `Grid`'s indices the other way round. */
export interface BackwardGrid {
  /** Per part, which head of which token (a row of [n * heads + 1, headDim]) each query's output became; padding takes
   * the last row, which is 0. */
  outputs: Tensor[]; // [rows, kvHeads, group * count]
  /** Where the gradient of each head of each token stands among those of all queries, then keys, then values. */
  tokens: Tensor; // [n, heads + 2 kvHeads]
  /** The rotation undone, with the same scales. */
  rotary: RotaryTable;
}

/** @param grid of a batch without a cache */
export function layBackwardGrid(config: ModelConfig, grid: Grid): BackwardGrid {
  const { heads, kvHeads } = config;
  const { packed } = grid;
  const { n, rows, width, slots } = packed;
  const all = heads + 2 * kvHeads;
  const real = new Uint8Array(rows * width);
  for (const slot of slots) real[slot] = 1;
  const group = heads / kvHeads;
  const step = grid.parts[0]!.seen;
  let from = 0;
  const outputs = grid.parts.map(({ queries }) => {
    const count = queries.shape[2]! / group;
    const index = rowsOf(packed, heads, 0, heads, from, count);
    for (let i = 0; i < index.length; i++) {
      const row = Math.floor(i / (heads * count));
      if (!real[row * width + from + (i % count)]) index[i] = n * heads;
    }
    from += count;
    return tf.tensor3d(index, queries.shape as [number, number, number], 'int32');
  });
  const back = new Int32Array(n * all);
  for (let t = 0, at = 0; t < n; t++) {
    const w = slots[t]! % width;
    const row = (slots[t]! - w) / width;
    for (let h = 0; h < heads; h++) back[at++] = outputRow(packed, heads, step, t, h);
    for (let h = 0; h < 2 * kvHeads; h++) {
      const [which, head] = [Math.floor(h / kvHeads), h % kvHeads];
      back[at++] = rows * width * (heads + which * kvHeads) + (row * kvHeads + head) * width + w;
    }
  }
  return { outputs, tokens: tf.tensor2d(back, [n, all], 'int32'), rotary: conjugate(grid.rotary) };
}

/**
 * The gradient of attention's loss by qkv [n, (heads + 2 kvHeads) * headDim], from that by `attended`. Attention weights
 * are computed again rather than kept, part by part: they alone grow with the square of a text's length.
 */
export function attentionBackward(
  config: ModelConfig,
  rotated: Tensor2D,
  gradient: Tensor2D,
  grid: Grid,
  backward: BackwardGrid,
): Tensor2D {
  const { heads, kvHeads, headDim } = config;
  const { n, rows, width } = grid.packed;
  return tf.tidy((): Tensor2D => {
    const place = (index: Tensor): Tensor4D => gatherRows(rotated, index, grid.shared);
    const [keys, values] = [place(grid.keys), place(grid.values)];
    const perHead: Tensor2D = tf.pad(tf.reshape(gradient, [n * heads, headDim]), [
      [0, 1],
      [0, 0],
    ]);
    const flat = (t: Tensor): Tensor2D => tf.reshape(t, [-1, headDim]);
    let dKeys: Tensor4D | undefined;
    let dValues: Tensor4D | undefined;
    const dQueries = grid.parts.map((part, i) => {
      const { seen } = part;
      const [dQuery, dKey, dValue] = tf.tidy((): [Tensor2D, Tensor4D, Tensor4D] => {
        const first = (t: Tensor4D) => (seen === width ? t : tf.slice(t, [0, 0, 0, 0], [rows, kvHeads, seen, headDim]));
        const whole = (t: Tensor4D): Tensor4D =>
          seen === width
            ? t
            : tf.pad(t, [
                [0, 0],
                [0, 0],
                [0, width - seen],
                [0, 0],
              ]);
        const queries = place(part.queries);
        const output: Tensor4D = gatherRows(perHead, backward.outputs[i]!, grid.shared);
        const weights = attentionWeights(queries, first(keys), part);
        const dWeights = batchMatmul(output, first(values), { transposeB: true });
        const weighted = tf.mul<Tensor4D>(weights, dWeights);
        const dScores = tf.sub<Tensor4D>(weighted, tf.mul<Tensor4D>(weights, tf.sum(weighted, -1, true)));
        return [
          flat(batchMatmul(dScores, first(keys))),
          whole(batchMatmul(dScores, queries, { transposeA: true })),
          whole(batchMatmul(weights, output, { transposeA: true })),
        ];
      });
      dKeys = dKeys ? tf.add<Tensor4D>(dKeys, dKey) : dKey;
      dValues = dValues ? tf.add<Tensor4D>(dValues, dValue) : dValue;
      return dQuery;
    });
    const dRotated = gatherRows<Tensor>(
      tf.concat([...dQueries, flat(dKeys!), flat(dValues!)]),
      backward.tokens,
      grid.shared,
    );
    const unturned = rotate(tf.reshape(dRotated, [n, -1]), backward.rotary);
    return tf.reshape(unturned, [n, (heads + 2 * kvHeads) * headDim]);
  });
}
