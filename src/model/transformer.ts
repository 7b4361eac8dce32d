import { CalmError } from '../base/errors';
import { tf, type Tensor, type Tensor2D, type Tensor4D } from '../engine/backend';
import {
  batchMatmul,
  constants,
  gatherRows,
  matmul,
  rmsNorm,
  rotaryTable,
  rotate,
  swiGlu,
  type Constants,
  type RotaryTable,
} from '../engine/ops';
import { rotaryFrequencies, type ModelConfig } from './config';
import { grow, type Packed, type Past } from './packed';

/** One block's weights, stored [in, out] unless said otherwise; query and key channels in the interleaved rotary layout. */
export interface Block {
  attentionNorm: Tensor; // [hidden]
  qkv: Tensor; // [hidden, (heads + 2 kvHeads) * headDim]
  attentionOut: Tensor; // [heads * headDim, hidden]
  mlpNorm: Tensor; // [hidden]
  gate: Tensor; // [intermediate, hidden]: rows of `hidden` are read faster than those of a power of 2
  up: Tensor; // [intermediate, hidden]
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
interface Grid {
  packed: Packed;
  shared: Constants;
  rotary: RotaryTable;
  keys: Tensor; // [rows, kvHeads, width], as `queries`
  values: Tensor;
  parts: Part[];
  /** The way back: where each head of each token stands in the outputs of all parts. */
  tokens: Tensor; // [n, heads]
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
    return rmsNorm(x, parameters.norm, grid.shared);
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
  const group = heads / kvHeads;
  const all = heads + 2 * kvHeads;
  const rotations = Array.from({ length: all }, (_, h) =>
    // Scores are divided by sqrt(d): done here, to the queries, it costs nothing.
    ({ turned: h < heads + kvHeads, scale: h < heads ? 1 / Math.sqrt(headDim) : 1 }),
  );
  /** The rows of `count` tokens of every row of the grid, for `number` heads from `first` on. */
  const rowsOf = (first: number, number: number, from = 0, count = width) => {
    const index = new Int32Array(rows * number * count);
    for (let row = 0, at = 0; row < rows; row++) {
      for (let head = first; head < first + number; head++) {
        for (let w = from; w < from + count; w++) index[at++] = packed.sources[row * width + w]! * all + head;
      }
    }
    return index;
  };
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
    const queries = tf.tensor3d(rowsOf(0, heads, from, count), [rows, kvHeads, group * count], 'int32');
    return { seen, queries, mask: () => once ?? mask() };
  });
  const back = new Int32Array(n * heads);
  for (let t = 0, at = 0; t < n; t++) {
    const w = packed.slots[t]! % width;
    const row = (packed.slots[t]! - w) / width;
    const from = w - (w % step);
    const count = Math.min(step, width - from);
    for (let h = 0; h < heads; h++) back[at++] = rows * heads * from + (row * heads + h) * count + (w - from);
  }
  return {
    packed,
    shared: constants(config.hiddenSize, config.normEps),
    rotary: rotaryTable(angles, n, rotations),
    keys: tf.tensor3d(rowsOf(heads, kvHeads), [rows, kvHeads, width], 'int32'),
    values: tf.tensor3d(rowsOf(heads + kvHeads, kvHeads), [rows, kvHeads, width], 'int32'),
    parts,
    tokens: tf.tensor2d(back, [n, heads], 'int32'),
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
    const normed = rmsNorm(x, block.attentionNorm, grid.shared);
    const { attended, keys, values } = attention(config, block, normed, grid, past);
    if (keep) kept = { keys: tf.keep(keys), values: tf.keep(values) };
    const pick = (t: Tensor2D) => (chosen ? tf.gather(t, chosen) : t);
    const middle = tf.add<Tensor2D>(pick(x), matmul(pick(attended), block.attentionOut as Tensor2D));
    const inner = rmsNorm(middle, block.mlpNorm, grid.shared);
    const gated = swiGlu(matmul(inner, block.gate as Tensor2D, true), matmul(inner, block.up as Tensor2D, true));
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
  const { n, rows } = grid.packed;
  const qkv = matmul(x, block.qkv as Tensor2D); // [n, (heads + 2 kvHeads) * headDim]
  const rotated = rotate(qkv, grid.rotary);
  const place = (index: Tensor): Tensor4D => gatherRows(rotated, index, grid.shared);
  const [newKeys, newValues] = [place(grid.keys), place(grid.values)];
  const keys = past ? tf.concat([past.keys as Tensor4D, newKeys], 2) : newKeys;
  const values = past ? tf.concat([past.values as Tensor4D, newValues], 2) : newValues;
  const outputs = grid.parts.map(({ seen, queries, mask }) =>
    tf.tidy((): Tensor2D => {
      const first = (t: Tensor4D) =>
        seen === t.shape[2] ? t : tf.slice(t, [0, 0, 0, 0], [rows, kvHeads, seen, headDim]);
      // The query heads that share a key head are stacked along the query axis, so keys are never repeated.
      const scores = batchMatmul(place(queries), first(keys), true); // [rows, kvHeads, group * count, seen]
      return tf.reshape(batchMatmul(tf.softmax(tf.add<Tensor4D>(scores, mask())), first(values)), [-1, headDim]);
    }),
  );
  const attended = gatherRows(outputs.length === 1 ? outputs[0]! : tf.concat(outputs), grid.tokens, grid.shared);
  return { attended: tf.reshape(attended, [n, heads * headDim]), keys, values };
}

/** Logits of hidden states [p, hidden] over the vocabulary [p, vocab], or over chosen tokens only [p, tokens]. */
export function unembed(parameters: Parameters, hidden: Tensor2D, tokens?: Int32Array): Tensor2D {
  return tf.tidy(() => {
    const all = (parameters.unembedding ?? parameters.embedding) as Tensor2D;
    return matmul(hidden, tokens ? tf.gather(all, tf.tensor1d(tokens, 'int32')) : all, true);
  });
}
