import { CalmError } from '../base/errors';
import { tf, type Tensor, type Tensor2D } from '../engine/backend';
import { quoted } from './byte-source';
import type { TensorSource } from './checkpoint-types';
import type { ModelConfig } from './config';
import { interleave } from './rotary-layout';
import { dequantise } from './dequantise';
import { dequantiseNf4, quantiseNf4 } from './nf4';
import type { WeightFormat } from './weight-formats';
import type { Block, BlockMatrices, Parameters, StoredBlock } from './transformer';

/** How a checkpoint format names its tensors, and whether its query/key rows are in the interleaved rotary layout. */
interface Naming {
  embedding: string;
  norm: string;
  unembedding: string;
  block(i: number, part: BlockPart): string;
  interleaved: boolean;
}

type BlockPart = 'attentionNorm' | 'q' | 'k' | 'v' | 'attentionOut' | 'mlpNorm' | 'gate' | 'up' | 'down';

const GGUF_PARTS: Record<BlockPart, string> = {
  attentionNorm: 'attn_norm',
  q: 'attn_q',
  k: 'attn_k',
  v: 'attn_v',
  attentionOut: 'attn_output',
  mlpNorm: 'ffn_norm',
  gate: 'ffn_gate',
  up: 'ffn_up',
  down: 'ffn_down',
};

export const HUGGING_FACE_PARTS: Record<BlockPart, string> = {
  attentionNorm: 'input_layernorm',
  q: 'self_attn.q_proj',
  k: 'self_attn.k_proj',
  v: 'self_attn.v_proj',
  attentionOut: 'self_attn.o_proj',
  mlpNorm: 'post_attention_layernorm',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  down: 'mlp.down_proj',
};

export const GGUF_NAMES: Naming = {
  embedding: 'token_embd.weight',
  norm: 'output_norm.weight',
  unembedding: 'output.weight',
  block: (i, part) => `blk.${i}.${GGUF_PARTS[part]}.weight`,
  interleaved: true, // llama.cpp permutes the rows so that rotary pairs are neighbours
};

export const HUGGING_FACE_NAMES: Naming = {
  embedding: 'model.embed_tokens.weight',
  norm: 'model.norm.weight',
  unembedding: 'lm_head.weight',
  block: (i, part) => `model.layers.${i}.${HUGGING_FACE_PARTS[part]}.weight`,
  interleaved: false,
};

/**
 * Reads a model's weights into the engine, one tensor at a time.
 * @param weights how the blocks' matrices are held; the embeddings and norms are float32
 * @throws CalmError that names the tensor that is missing, has another shape than the configuration says, or is one
 * this architecture has no use for (biases, `rope_freqs`): without it the logits would be wrong
 */
export function loadParameters(
  source: TensorSource,
  config: ModelConfig,
  naming: Naming,
  onTensor: (done: number, total: number) => void = () => undefined,
  weights: WeightFormat = 'float32',
): Parameters {
  const { hiddenSize, intermediateSize, headDim, heads, kvHeads } = config;
  const total = config.layers * 9 + 2 + (config.tied ? 0 : 1);
  let done = 0;
  const made: Tensor[] = [];
  const used = new Set<string>([naming.unembedding]); // also there, and not needed, in some tied checkpoints
  const checkShape = (name: string, shape: number[]) => {
    const found = source.shape(name);
    if (found.join() !== shape.join()) {
      throw new CalmError(`tensor ${name} is [${found.join(', ')}], the configuration says [${shape.join(', ')}]`);
    }
  };
  const read = (name: string, shape: number[]): Tensor => {
    checkShape(name, shape);
    const tensor = tf.tensor(source.float32(name), shape, 'float32');
    used.add(name);
    onTensor(++done, total);
    return tensor;
  };
  const keep = (make: () => Tensor): Tensor => {
    const tensor = tf.tidy(make);
    made.push(tensor);
    return tensor;
  };
  /** Reads a matrix now, and makes it as often as it is asked for. */
  const hold = (name: string, shape: [number, number]): (() => Tensor2D) => {
    checkShape(name, shape);
    const [rows, columns] = shape;
    if (weights === 'nf4') {
      const quantised = quantiseNf4(source.float32(name));
      return () => tf.tensor2d(dequantiseNf4(quantised), shape);
    }
    const stored = source.stored(name);
    if (!stored) {
      const values = source.float32(name);
      return () => tf.tensor2d(values, shape);
    }
    return () => tf.tensor2d(dequantise(stored.type, stored.bytes, rows * columns), shape);
  };
  const block = (i: number): Block | StoredBlock => {
    const vector = (part: BlockPart) => keep(() => read(naming.block(i, part), [hiddenSize]));
    const matrix = (part: BlockPart, out: number, into: number): (() => Tensor2D) => {
      const [name, shape] = [naming.block(i, part), [out, into] as [number, number]];
      if (weights === 'float32') return () => read(name, shape) as Tensor2D;
      const make = hold(name, shape);
      used.add(name);
      onTensor(++done, total);
      return make;
    };
    const rotary = (part: 'q' | 'k', count: number) => {
      const rows = matrix(part, count * headDim, hiddenSize);
      return () => (naming.interleaved ? rows() : interleave(rows(), headDim));
    };
    const norms = { attentionNorm: vector('attentionNorm'), mlpNorm: vector('mlpNorm') };
    const parts = {
      qkv: [rotary('q', heads), rotary('k', kvHeads), matrix('v', kvHeads * headDim, hiddenSize)],
      attentionOut: matrix('attentionOut', hiddenSize, heads * headDim),
      gate: matrix('gate', intermediateSize, hiddenSize),
      up: matrix('up', intermediateSize, hiddenSize),
      down: matrix('down', hiddenSize, intermediateSize),
    };
    const makers: Record<keyof BlockMatrices, () => Tensor> = {
      qkv: () => tf.transpose(tf.concat(parts.qkv.map((make) => make()))),
      attentionOut: () => tf.transpose(parts.attentionOut()),
      gate: parts.gate,
      up: parts.up,
      down: () => tf.transpose(parts.down()),
    };
    const made = (make: (one: () => Tensor) => Tensor) =>
      Object.fromEntries(Object.entries(makers).map(([name, one]) => [name, make(one)])) as BlockMatrices;
    if (weights === 'float32') return { ...norms, ...made(keep) };
    return { ...norms, load: () => made((one) => tf.tidy(one)) };
  };
  try {
    const table = [config.vocabSize, hiddenSize];
    const parameters = {
      embedding: keep(() => read(naming.embedding, table)),
      blocks: Array.from({ length: config.layers }, (_, i) => block(i)),
      norm: keep(() => read(naming.norm, [hiddenSize])),
      ...(config.tied ? {} : { unembedding: keep(() => read(naming.unembedding, table)) }),
    };
    for (const name of source.names()) {
      // Old Llama checkpoints carry the rotary frequencies, which the configuration gives too.
      if (used.has(name) || name.endsWith('.rotary_emb.inv_freq')) continue;
      throw new CalmError(`tensor ${quoted(name)} has no place in a ${config.layers}-block Llama model`, {
        remedy: 'use a checkpoint without it',
      });
    }
    return parameters;
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
}
