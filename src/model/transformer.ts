import { CalmError } from '../base/errors';
import { tf, type Tensor, type Tensor2D } from '../engine/backend';
import { matmul, rmsNorm, swiGlu } from '../engine/ops';
import { attention, layGrid, type Grid } from './attention';
import type { ModelConfig } from './config';
import { grow, type Packed, type Past } from './packed';

/** One block's weights, stored [in, out] unless said otherwise; query and key channels in the interleaved rotary layout. */
export type Block = {
  attentionNorm: Tensor; // [hidden]
  qkv: Tensor; // [hidden, (heads + 2 kvHeads) * headDim]
  attentionOut: Tensor; // [heads * headDim, hidden]
  mlpNorm: Tensor; // [hidden]
  gate: Tensor; // [intermediate, hidden]: rows of `hidden` are read faster than those of a power of 2
  up: Tensor; // [intermediate, hidden]
  down: Tensor; // [intermediate, hidden]
};

/** A block whose matrices are held quantised: `load` makes them, as float32, each time they are needed. */
export type StoredBlock = Pick<Block, 'attentionNorm' | 'mlpNorm'> & { load: () => BlockMatrices };
export type BlockMatrices = Omit<Block, 'attentionNorm' | 'mlpNorm'>;

/** A block's weights. To be called in a `tidy`, which frees what was made. */
export function blockOf(block: Block | StoredBlock): Block {
  if (!('load' in block)) return block;
  const { load, ...norms } = block;
  return { ...norms, ...load() };
}

/** All weights of a model, as a parameter tree. */
export type Parameters = {
  embedding: Tensor; // [vocab, hidden]
  blocks: (Block | StoredBlock)[];
  norm: Tensor; // [hidden]
  /** [vocab, hidden]; absent when tied to the embedding. */
  unembedding?: Tensor;
  /** [vocab], added to the logits; a calibration head's l. */
  bias?: Tensor;
};

/** A model as what runs it needs it. */
export interface Transformer {
  config: ModelConfig;
  parameters: Parameters;
}

/**
 * Keys and values of every layer, [rows, kvHeads, width, headDim], and which places of that grid are real. Layers of
 * one row stand for every row of a batch.
 */
export interface KeyValueCache {
  layers: { keys: Tensor; values: Tensor }[];
  past: Past;
}

/** Attention scores computed at once, unless said otherwise. */
export const MOST_SCORES = 2 ** 24;

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
  const layers: KeyValueCache['layers'] = [];
  const hidden = tf.tidy(() => {
    const grid = layGrid(config, packed, cache?.past.width ?? 0, mostScores);
    let x = embed(config, parameters, packed.ids);
    parameters.blocks.forEach((block, i) => {
      const chosen = i === parameters.blocks.length - 1 ? tf.tensor1d(at, 'int32') : undefined;
      const previous = x;
      const made = tf.tidy(() => {
        const { out, keys, values } = runBlock(config, blockOf(block), x, grid, { past: cache?.layers[i], chosen });
        return keep ? { out, keys, values } : { out };
      });
      x = made.out;
      if (made.keys) layers.push({ keys: tf.keep(made.keys), values: tf.keep(made.values) });
      previous.dispose();
    });
    return rmsNorm(x, parameters.norm, grid.shared);
  });
  return keep ? { hidden, cache: { layers, past: grow(cache?.past, packed) } } : { hidden };
}

/** Embeddings [n, hidden] of token ids. @throws CalmError for one outside the vocabulary */
export function embed(config: ModelConfig, { embedding }: Parameters, ids: Int32Array): Tensor2D {
  const outside = ids.find((id) => id < 0 || id >= config.vocabSize); // a GPU would take zeros without a word
  if (outside !== undefined) throw new CalmError(`token ${outside} is not in the vocabulary of ${config.vocabSize}`);
  return tf.tidy(() => tf.gather(embedding as Tensor2D, tf.tensor1d(ids, 'int32')));
}

/** The products of a block, by the input that they share. */
export type Product = 'qkv' | 'attentionOut' | 'gateUp' | 'down';

/**
 * One block of x [n, hidden]: its result, and what its backward pass needs. To be called in a `tidy`.
 * @param options.chosen the tokens [p] whose results are wanted; all when absent
 * @param options.addTo adds to the outputs of a product's matrices, from their input: LoRA with dropout
 */
export function runBlock(
  config: ModelConfig,
  block: Block,
  x: Tensor2D,
  grid: Grid,
  options: {
    past?: { keys: Tensor; values: Tensor } | undefined;
    chosen?: Tensor | undefined;
    addTo?: ((product: Product, input: Tensor2D, outputs: Tensor2D[]) => Tensor2D[]) | undefined;
  } = {},
) {
  const { past, chosen, addTo = (_: Product, __: Tensor2D, outputs: Tensor2D[]) => outputs } = options;
  const product = (name: Product, input: Tensor2D, ...matrices: [Tensor, transposeB: boolean][]) =>
    addTo(
      name,
      input,
      matrices.map(([matrix, transposeB]) => matmul(input, matrix as Tensor2D, { transposeB })),
    ) as [Tensor2D, Tensor2D];
  const pick = (t: Tensor2D) => (chosen ? tf.gather(t, chosen) : t);
  const [qkv] = product('qkv', rmsNorm(x, block.attentionNorm, grid.shared), [block.qkv, false]);
  const { attended: all, rotated, keys, values } = attention(config, qkv, grid, past);
  const attended = pick(all);
  const middle = tf.add<Tensor2D>(pick(x), product('attentionOut', attended, [block.attentionOut, false])[0]);
  const inner = rmsNorm(middle, block.mlpNorm, grid.shared);
  const [gate, up] = product('gateUp', inner, [block.gate, true], [block.up, true]);
  const out = tf.add<Tensor2D>(middle, product('down', swiGlu(gate, up), [block.down, false])[0]);
  return { out, keys, values, rotated, attended, middle, gate, up };
}

/** The output projection, [vocab, hidden]. */
export function unembeddingOf({ unembedding, embedding }: Parameters): Tensor2D {
  return (unembedding ?? embedding) as Tensor2D;
}

/** Logits of hidden states [p, hidden] over the vocabulary [p, vocab], or over chosen tokens only [p, tokens]. */
export function unembed(parameters: Parameters, hidden: Tensor2D, tokens?: Int32Array): Tensor2D {
  return tf.tidy(() => {
    const index = tokens && tf.tensor1d(tokens, 'int32');
    const chosen = <T extends Tensor>(t: T) => (index ? tf.gather(t, index) : t);
    const logits = matmul(hidden, chosen(unembeddingOf(parameters)), { transposeB: true });
    return parameters.bias ? tf.add(logits, chosen(parameters.bias)) : logits;
  });
}
