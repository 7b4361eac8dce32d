import { CalmError } from '../base/errors';
import { tf, type Tensor, type Tensor1D, type Tensor2D, type Tensor4D } from '../engine/backend';
import { matmul, rmsNorm, rotaryTable, rotate, swiGlu, type RotaryTable } from '../engine/ops';
import { rotaryFrequencies, type ModelConfig } from './config';
import { grow, type Packed, type Past } from './packed';

/** One block's weights, stored [in, out]; query and key channels in the interleaved rotary layout. */
export interface Block {
  attentionNorm: Tensor; // [hidden]
  qkv: Tensor; // [hidden, (heads + 2 kvHeads) * headDim]
  attentionOut: Tensor; // [heads * headDim, hidden]
  mlpNorm: Tensor; // [hidden]
  gate: Tensor; // [hidden, intermediate]
  up: Tensor; // [hidden, intermediate]
  down: Tensor; // [intermediate, hidden]
}

/** All weights of a model, as a parameter tree. */
export interface Parameters {
  embedding: Tensor; // [vocab, hidden]
  blocks: Block[];
  norm: Tensor; // [hidden]
  /** [vocab, hidden]; absent when tied to the embedding. */
  unembedding?: Tensor;
}

/** Keys and values of every layer, [rows, kvHeads, width, headDim], and which places of that grid are real. */
export interface KeyValueCache {
  layers: { keys: Tensor; values: Tensor }[];
  past: Past;
}

interface Grid {
  packed: Packed;
  /** What the scores of queries `from` to `from + count` have added to them, [rows, 1, count, seen]. */
  mask(from: number, count: number, seen: number): Tensor;
  rotary: RotaryTable;
  /** Which head of which token (a row of [n * (heads + 2 kvHeads), headDim]) stands in each place of the grid. */
  queries: Tensor1D; // [rows * heads * width]
  keys: Tensor1D; // [rows * kvHeads * width]
  values: Tensor1D;
  /** The way back: which row of [rows * heads * width, headDim] is each head of each token. */
  tokens: Tensor1D; // [n * heads]
  /** Queries whose attention is computed at once. */
  step: number;
}

const MOST_SCORES = 2 ** 24;
/** Added to a hidden score; finite, so that a grid row which is all padding stays a number. */
const HIDDEN = -1e30;

/**
 * Runs the transformer on a packed batch.
 * @param at indices of the tokens whose final hidden states are wanted; the last block's feed-forward runs on them only
 * @param cache keys and values to attend to before the batch's own; replaced by the grown ones when `keep` is true
 * @param mostScores attention scores computed at once; a long text is taken in parts, which bounds memory
 * @returns normed hidden states [at.length, hidden], and the cache when `keep`
 * @throws RangeError for a token outside the vocabulary
 */
export function forward(
  config: ModelConfig,
  parameters: Parameters,
  packed: Packed,
  at: Int32Array,
  options: { cache?: KeyValueCache | undefined; keep?: boolean; mostScores?: number } = {},
): { hidden: Tensor2D; cache?: KeyValueCache } {
  const { cache, keep = false, mostScores = MOST_SCORES } = options;
  const outside = packed.ids.find((id) => id < 0 || id >= config.vocabSize); // a GPU would take zeros without a word
  if (outside !== undefined) throw new CalmError(`token ${outside} is not in the vocabulary of ${config.vocabSize}`);
  const layers: KeyValueCache['layers'] = [];
  const hidden = tf.tidy(() => {
    const grid = layGrid(config, packed, cache?.past.width ?? 0, mostScores);
    let x = tf.gather(parameters.embedding as Tensor2D, tf.tensor1d(packed.ids, 'int32')); // [n, hidden]
    parameters.blocks.forEach((block, i) => {
      const chosen = i === parameters.blocks.length - 1 ? tf.tensor1d(at, 'int32') : undefined;
      const previous = x;
      const { out, keys, values } = runBlock(config, block, x, grid, cache?.layers[i], keep, chosen);
      x = out;
      if (keys && values) layers.push({ keys: tf.keep(keys), values: tf.keep(values) });
      previous.dispose();
    });
    return rmsNorm(x, parameters.norm, config.normEps);
  });
  return keep ? { hidden, cache: { layers, past: grow(cache?.past, packed) } } : { hidden };
}

function layGrid(config: ModelConfig, packed: Packed, pastWidth: number, mostScores: number): Grid {
  const { n, rows, width } = packed;
  const frequencies = rotaryFrequencies(config);
  const half = frequencies.length;
  const angles = new Float64Array(n * half);
  for (let t = 0; t < n; t++) {
    for (let i = 0; i < half; i++) angles[t * half + i] = packed.positions[t]! * frequencies[i]!;
  }
  const { heads, kvHeads, headDim } = config;
  const all = heads + 2 * kvHeads;
  const rotations = Array.from({ length: all }, (_, h) =>
    // Scores are divided by sqrt(d): done here, to the queries, it costs nothing.
    ({ turned: h < heads + kvHeads, scale: h < heads ? 1 / Math.sqrt(headDim) : 1 }),
  );
  const rowsOf = (first: number, count: number) => {
    const index = new Int32Array(rows * count * width);
    for (let row = 0, at = 0; row < rows; row++) {
      for (let head = first; head < first + count; head++) {
        for (let w = 0; w < width; w++) index[at++] = packed.sources[row * width + w]! * all + head;
      }
    }
    return tf.tensor1d(index, 'int32');
  };
  const back = new Int32Array(n * heads);
  for (let t = 0, at = 0; t < n; t++) {
    const w = packed.slots[t]! % width;
    const first = (packed.slots[t]! - w) * heads + w; // (row * heads) * width + w
    for (let h = 0; h < heads; h++) back[at++] = first + h * width;
  }
  const across = pastWidth + width;
  const hidden = tf.tensor4d(packed.hidden, [rows, 1, width, across], 'bool');
  const added = (t: Tensor) => tf.mul(tf.cast(t, 'float32'), HIDDEN);
  const step = Math.max(1, Math.floor(mostScores / (rows * heads * across)));
  // Made once for all layers, but for long texts, whose mask in float32 would be the largest tensor of all.
  const whole = step < width ? undefined : added(hidden);
  return {
    packed,
    mask: (from, count, seen) => whole ?? added(part(part(hidden, 2, from, count), 3, 0, seen)),
    step,
    rotary: rotaryTable(angles, n, rotations),
    queries: rowsOf(0, heads),
    keys: rowsOf(heads, kvHeads),
    values: rowsOf(heads + kvHeads, kvHeads),
    tokens: tf.tensor1d(back, 'int32'),
  };
}

function runBlock(
  config: ModelConfig,
  block: Block,
  x: Tensor2D,
  grid: Grid,
  past: { keys: Tensor; values: Tensor } | undefined,
  keep: boolean,
  chosen: Tensor | undefined,
): { out: Tensor2D; keys: Tensor | undefined; values: Tensor | undefined } {
  let kept: { keys: Tensor; values: Tensor } | undefined;
  const out = tf.tidy(() => {
    const normed = rmsNorm(x, block.attentionNorm, config.normEps);
    const { attended, keys, values } = attention(config, block, normed, grid, past);
    if (keep) kept = { keys: tf.keep(keys), values: tf.keep(values) };
    const pick = (t: Tensor2D) => (chosen ? tf.gather(t, chosen) : t);
    const middle = tf.add<Tensor2D>(pick(x), matmul(pick(attended), block.attentionOut as Tensor2D));
    const inner = rmsNorm(middle, block.mlpNorm, config.normEps);
    const gated = swiGlu(matmul(inner, block.gate as Tensor2D), matmul(inner, block.up as Tensor2D));
    return tf.add<Tensor2D>(middle, matmul(gated, block.down as Tensor2D));
  });
  return { out, keys: kept?.keys, values: kept?.values };
}

/** Grouped-query attention of normed x [n, hidden] -> [n, heads * headDim], with the grid's keys and values. */
function attention(
  config: ModelConfig,
  block: Block,
  x: Tensor2D,
  grid: Grid,
  past: { keys: Tensor; values: Tensor } | undefined,
): { attended: Tensor2D; keys: Tensor; values: Tensor } {
  const { heads, kvHeads, headDim } = config;
  const { n, rows, width } = grid.packed;
  const group = heads / kvHeads;
  const qkv = matmul(x, block.qkv as Tensor2D); // [n, (heads + 2 kvHeads) * headDim]
  const rotated = tf.reshape(rotate(tf.reshape(qkv, [n, heads + 2 * kvHeads, headDim]), grid.rotary), [-1, headDim]);
  const place = (index: Tensor1D, count: number): Tensor4D =>
    tf.reshape(tf.gather(rotated, index), [rows, count, width, headDim]);
  const q = place(grid.queries, heads);
  const newKeys = place(grid.keys, kvHeads);
  const newValues = place(grid.values, kvHeads);
  const keys = past ? tf.concat([past.keys as Tensor4D, newKeys], 2) : newKeys;
  const values = past ? tf.concat([past.values as Tensor4D, newValues], 2) : newValues;
  const across = keys.shape[2];
  const attend = (from: number): Tensor4D =>
    tf.tidy(() => {
      const count = Math.min(grid.step, width - from);
      // No query sees a token that comes after it, so the keys end with the last query.
      const seen = across - width + from + count;
      // The query heads that share a key head are stacked along the query axis, so keys are never repeated.
      const queries = tf.reshape(part(q, 2, from, count), [rows, kvHeads, group * count, headDim]);
      const scores = tf.reshape(tf.matMul(queries, part(keys, 2, 0, seen), false, true), [rows, heads, count, seen]);
      const weights = tf.reshape(tf.softmax(tf.add(scores, grid.mask(from, count, seen))), [
        rows,
        kvHeads,
        group * count,
        seen,
      ]);
      return tf.reshape(tf.matMul(weights, part(values, 2, 0, seen)), [rows, heads, count, headDim]);
    });
  const parts = Array.from({ length: Math.ceil(width / grid.step) }, (_, i) => attend(i * grid.step));
  const mixed = parts.length === 1 ? parts[0]! : tf.concat(parts, 2);
  const attended = tf.gather(tf.reshape(mixed, [-1, headDim]), grid.tokens); // [n * heads, headDim]
  return { attended: tf.reshape(attended, [n, heads * headDim]), keys, values };
}

/** `size` entries of t along one axis, from `start`. */
function part(t: Tensor4D, axis: 2 | 3, start: number, size: number): Tensor4D {
  if (size === t.shape[axis]) return t;
  const begin: [number, number, number, number] = [0, 0, 0, 0];
  const sizes: [number, number, number, number] = [...t.shape];
  begin[axis] = start;
  sizes[axis] = size;
  return tf.slice(t, begin, sizes);
}

/** Logits of hidden states [p, hidden] over the vocabulary [p, vocab], or over chosen tokens only [p, tokens]. */
export function unembed(parameters: Parameters, hidden: Tensor2D, tokens?: Int32Array): Tensor2D {
  return tf.tidy(() => {
    const all = (parameters.unembedding ?? parameters.embedding) as Tensor2D;
    return matmul(hidden, tokens ? tf.gather(all, tf.tensor1d(tokens, 'int32')) : all, true);
  });
}
