import { tf, type Tensor, type Tensor2D, type Tensor4D } from '../engine/backend';
import { matmul, rmsNorm, rotaryTable, rotate, swiGlu, type RotaryTable } from '../engine/ops';
import { rotaryFrequencies, type ModelConfig } from './config';
import { grow, type Packed, type Past } from './packed';

/** One block's weights, stored [in, out]; query and key channels in the interleaved rotary layout. */
export interface Block {
  attentionNorm: Tensor; // [hidden]
  qkv: Tensor; // [hidden, (heads + 2 kvHeads) * headDim]
  attentionOut: Tensor; // [heads * headDim, hidden]
  mlpNorm: Tensor; // [hidden]
  gateUp: Tensor; // [hidden, 2 * intermediate]
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
  /** undefined when no row has padding: then token order is grid order. */
  slots: Tensor | undefined;
  sources: Tensor | undefined;
  mask: Tensor4D; // [rows, 1, width, keys]
  rotary: RotaryTable;
  mostScores: number;
}

const MOST_SCORES = 2 ** 24;

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
  if (outside !== undefined) throw new RangeError(`token ${outside} is not in the vocabulary of ${config.vocabSize}`);
  const layers: KeyValueCache['layers'] = [];
  const hidden = tf.tidy(() => {
    const grid = { ...layGrid(config, packed, cache?.past.width ?? 0), mostScores };
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

function layGrid(config: ModelConfig, packed: Packed, pastWidth: number): Omit<Grid, 'mostScores'> {
  const { n, rows, width } = packed;
  const full = n === rows * width;
  const frequencies = rotaryFrequencies(config);
  const half = frequencies.length;
  const angles = new Float64Array(n * half);
  for (let t = 0; t < n; t++) {
    for (let i = 0; i < half; i++) angles[t * half + i] = packed.positions[t]! * frequencies[i]!;
  }
  return {
    packed,
    slots: full ? undefined : tf.tensor1d(packed.slots, 'int32'),
    sources: full ? undefined : tf.tensor1d(packed.sources, 'int32'),
    mask: tf.tensor4d(packed.mask, [rows, 1, width, pastWidth + width]),
    rotary: rotaryTable(angles, n),
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
    const gated = swiGlu(matmul(rmsNorm(middle, block.mlpNorm, config.normEps), block.gateUp as Tensor2D));
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
  const qkv = matmul(x, block.qkv as Tensor2D);
  const [qk, v] = tf.split(qkv, [(heads + kvHeads) * headDim, kvHeads * headDim], 1) as [Tensor2D, Tensor2D];
  const rotated = rotate(tf.reshape(qk, [n, heads + kvHeads, headDim]), grid.rotary);
  const toGrid = (t: Tensor, count: number): Tensor4D => {
    const flat = tf.reshape(t, [n, count * headDim]);
    const placed = grid.sources ? tf.gather(flat, grid.sources) : flat;
    return tf.transpose(tf.reshape(placed, [rows, width, count, headDim]), [0, 2, 1, 3]); // [rows, count, width, d]
  };
  const [q, newKeys] = tf.split(toGrid(rotated, heads + kvHeads), [heads, kvHeads], 1) as [Tensor4D, Tensor4D];
  const newValues = toGrid(v, kvHeads);
  const keys = past ? tf.concat([past.keys as Tensor4D, newKeys], 2) : newKeys;
  const values = past ? tf.concat([past.values as Tensor4D, newValues], 2) : newValues;
  const across = keys.shape[2];
  const scaled = tf.mul<Tensor4D>(q, 1 / Math.sqrt(headDim));
  const step = Math.max(1, Math.floor(grid.mostScores / (rows * heads * across)));
  const attend = (from: number): Tensor4D =>
    tf.tidy(() => {
      const count = Math.min(step, width - from);
      // No query sees a token that comes after it, so the keys end with the last query.
      const seen = across - width + from + count;
      const mask = part(part(grid.mask, 2, from, count), 3, 0, seen);
      // The query heads that share a key head are stacked along the query axis, so keys are never repeated.
      const queries = tf.reshape(part(scaled, 2, from, count), [rows, kvHeads, group * count, headDim]);
      const scores = tf.reshape(tf.matMul(queries, part(keys, 2, 0, seen), false, true), [rows, heads, count, seen]);
      const weights = tf.reshape(tf.softmax(tf.add(scores, mask)), [rows, kvHeads, group * count, seen]);
      return tf.reshape(tf.matMul(weights, part(values, 2, 0, seen)), [rows, heads, count, headDim]);
    });
  const parts = Array.from({ length: Math.ceil(width / step) }, (_, i) => attend(i * step));
  const mixed = parts.length === 1 ? parts[0]! : tf.concat(parts, 2);
  const flat: Tensor2D = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [rows * width, heads * headDim]);
  return { attended: grid.slots ? tf.gather(flat, grid.slots) : flat, keys, values };
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
