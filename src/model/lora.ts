import { UsageError } from '../base/errors';
import { unknownName } from '../base/pick';
import { tf, type Tensor, type Tensor2D } from '../engine/backend';
import { dropoutMask, matmul } from '../engine/ops';
import type { Random } from '../engine/random';
import type { ModelConfig } from './config';
import type { Transformer } from './transformer';
import { TARGETS, type Target } from './targets';
import { blockOf, type Block, type Parameters, type Product, type StoredBlock } from './transformer';

/** The low-rank part of one layer, as PEFT stores it: the weight [out, in] gets scaling * b a. */
export type LowRank = { a: Tensor2D /* [rank, in] */; b: Tensor2D /* [out, rank] */ };
/** Rows of b for queries and keys are in the interleaved rotary layout, as the engine's weights are. */
export type AdapterBlock = { [T in Target]?: LowRank };

export interface LoraConfig {
  rank: number;
  /** The scaling is alpha / rank, or alpha / sqrt(rank) when `rankStabilised`. */
  alpha: number;
  /** Share of each layer's inputs that its low-rank part does not see in training. */
  dropout: number;
  rankStabilised: boolean;
  targets: readonly Target[];
}

/** LoRA (Hu et al. 2021) on a model's blocks. `blocks` is a parameter tree. */
export interface Adapter {
  config: LoraConfig;
  blocks: AdapterBlock[];
}

/** The paper's (C.1): rank 64, alpha 32, dropout 0.01, all linear layers but lm_head. */
export const PAPER_LORA: LoraConfig = { rank: 64, alpha: 32, dropout: 0.01, rankStabilised: false, targets: TARGETS };

/** What b a is multiplied by: alpha / rank, or alpha / sqrt(rank) (Kalajdzievski 2023). */
export function loraScaling({ rank, alpha, rankStabilised }: LoraConfig): number {
  return alpha / (rankStabilised ? Math.sqrt(rank) : rank);
}

/** Inputs and outputs of a target's weight. */
export function targetShape(config: ModelConfig, target: Target): { inputs: number; outputs: number } {
  const { hiddenSize: hidden, intermediateSize: intermediate, heads, kvHeads, headDim } = config;
  const shapes: Record<Target, [number, number]> = {
    q: [hidden, heads * headDim],
    k: [hidden, kvHeads * headDim],
    v: [hidden, kvHeads * headDim],
    attentionOut: [heads * headDim, hidden],
    gate: [hidden, intermediate],
    up: [hidden, intermediate],
    down: [intermediate, hidden],
  };
  const [inputs, outputs] = shapes[target];
  return { inputs, outputs };
}

/** @throws UsageError that says which value is none and what it may be */
export function checkLora(config: LoraConfig): void {
  const { rank, alpha, dropout, targets } = config;
  if (!Number.isSafeInteger(rank) || rank < 1) throw new UsageError(`a LoRA rank is a positive integer, not ${rank}`);
  if (!(alpha > 0 && Number.isFinite(alpha))) throw new UsageError(`LoRA's alpha is a positive number, not ${alpha}`);
  if (!(dropout >= 0 && dropout < 1)) throw new UsageError(`LoRA's dropout is in [0, 1), not ${dropout}`);
  if (targets.length === 0) throw new UsageError('LoRA needs at least one target', { remedy: TARGETS.join(', ') });
  for (const target of targets) if (!TARGETS.includes(target)) throw unknownName('LoRA target', target, TARGETS);
}

/**
 * A fresh adapter, which changes nothing: a uniform in +-1 / sqrt(inputs) (PEFT's Kaiming start), b zero.
 * The caller disposes of its blocks.
 * @throws UsageError as `checkLora`
 */
export function createAdapter(config: ModelConfig, lora: LoraConfig, random: Random): Adapter {
  checkLora(lora);
  const { rank, targets } = lora;
  const blocks = Array.from({ length: config.layers }, (_, i): AdapterBlock => {
    const layer = (target: Target): [Target, LowRank] => {
      const { inputs, outputs } = targetShape(config, target);
      const stream = random.stream(`${i}.${target}`);
      const a = Float32Array.from({ length: rank * inputs }, () => (2 * stream.uniform() - 1) / Math.sqrt(inputs));
      return [target, { a: tf.tensor2d(a, [rank, inputs]), b: tf.zeros([outputs, rank]) }];
    };
    return Object.fromEntries(TARGETS.filter((t) => targets.includes(t)).map(layer));
  });
  return { config: lora, blocks };
}

/** Which targets share an input, in the order of the product's outputs; how the outputs lie in the block's weights. */
export const PRODUCTS: Record<Product, readonly Target[]> = {
  qkv: ['q', 'k', 'v'],
  attentionOut: ['attentionOut'],
  gateUp: ['gate', 'up'],
  down: ['down'],
};

/**
 * The block with the low-rank parts added to its weights: the same outputs at no extra cost. Weights that no target
 * changes are the block's own. To be called in a `tidy`.
 */
export function mergeBlock(config: ModelConfig, block: Block, adapter: AdapterBlock, scaling: number): Block {
  // The small factor is scaled, not the product.
  /** scaling * (b a)^T, [in, out]. */
  const added = ({ a, b }: LowRank) => matmul(tf.mul(a, scaling), b, { transposeA: true, transposeB: true });
  /** scaling * b a, [out, in]. */
  const addedRows = ({ a, b }: LowRank) => matmul(b, tf.mul(a, scaling));
  const plus = (weight: Tensor, part: LowRank | undefined, make: (part: LowRank) => Tensor) =>
    part ? tf.add(weight, make(part)) : weight;
  const { q, k, v } = adapter;
  const columns = () =>
    PRODUCTS.qkv.map((target) => {
      const part = adapter[target];
      const { inputs, outputs } = targetShape(config, target);
      return part ? added(part) : tf.zeros<Tensor2D['rankType']>([inputs, outputs]);
    });
  return {
    ...block,
    qkv: q || k || v ? tf.add(block.qkv, tf.concat(columns(), 1)) : block.qkv,
    attentionOut: plus(block.attentionOut, adapter.attentionOut, added),
    gate: plus(block.gate, adapter.gate, addedRows),
    up: plus(block.up, adapter.up, addedRows),
    down: plus(block.down, adapter.down, added),
  };
}

/**
 * The model's weights with the adapter merged in, as `mergeBlock`; it is needed as long as they are where blocks are held
 * quantised. Weights that stay the same are shared with `parameters`; the caller disposes of the others.
 */
export function fuse({ config, parameters }: Transformer, adapter: Adapter): Parameters {
  return merged(config, parameters, adapter, loraScaling(adapter.config));
}

/** Undoes `fuse`, but for rounding: the weights with the adapter taken out. */
export function unfuse({ config, parameters }: Transformer, adapter: Adapter): Parameters {
  return merged(config, parameters, adapter, -loraScaling(adapter.config));
}

function merged(config: ModelConfig, parameters: Parameters, { blocks }: Adapter, scaling: number): Parameters {
  const merge = (block: Block | StoredBlock, i: number) => mergeBlock(config, blockOf(block), blocks[i]!, scaling);
  return {
    ...parameters,
    blocks: parameters.blocks.map((block, i) => {
      if (!('load' in block)) return tf.tidy(() => merge(block, i));
      return { ...block, load: () => merge(block, i) }; // held quantised, so merged when needed
    }),
  };
}

/** Dropout of one pass: which inputs each layer's low-rank part does not see follows from the seed alone. */
export interface Dropout {
  rate: number;
  seed: number;
}

/** The mask of a target's inputs in one block: 0 or 1 / (1 - rate), of the input's shape; undefined without dropout. */
export function maskOf(dropout: Dropout | undefined, block: number, target: Target, input: Tensor2D) {
  if (!dropout) return undefined;
  return dropoutMask(input.shape, dropout.rate, [dropout.seed, block * TARGETS.length + TARGETS.indexOf(target)]);
}

/** What a target's low-rank part adds to its outputs: scaling * dropout(x) a^T b^T, [n, out]. */
export function lowRankOutput(x: Tensor2D, { a, b }: LowRank, scaling: number, mask?: Tensor): Tensor2D {
  return tf.tidy(() => {
    const inner = matmul(mask ? tf.mul(x, mask) : x, a, { transposeB: true });
    return matmul(tf.mul(inner, scaling), b, { transposeB: true });
  });
}

/**
 * Gradients of a target's low-rank part, from inputs x [n, in] and the gradient dy [n, out] by its outputs.
 * @returns also the gradient by x through the dropped-out path when there is a mask (else it goes through the merged weight)
 */
export function lowRankBackward(
  x: Tensor2D,
  dy: Tensor2D,
  { a, b }: LowRank,
  scaling: number,
  mask?: Tensor,
): { gradient: LowRank; dx?: Tensor2D } {
  return tf.tidy(() => {
    const seen = mask ? tf.mul<Tensor2D>(x, mask) : x;
    const inner = tf.mul<Tensor2D>(matmul(seen, a, { transposeB: true }), scaling); // [n, rank]
    const outer = tf.mul<Tensor2D>(matmul(dy, b), scaling); // [n, rank]
    const gradient = { a: matmul(outer, seen, { transposeA: true }), b: matmul(dy, inner, { transposeA: true }) };
    return mask ? { gradient, dx: tf.mul<Tensor2D>(matmul(outer, a), mask) } : { gradient };
  });
}
