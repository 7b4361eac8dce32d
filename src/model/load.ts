import { CalmError } from '../base/errors';
import { tf, type Tensor, type Tensor2D } from '../engine/backend';
import { quoted } from './byte-source';
import type { TensorSource } from './checkpoint-types';
import type { ModelConfig } from './config';
import { interleave } from './rotary-layout';
import type { Block, Parameters } from './transformer';

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
 * Reads a model's weights into the engine, as float32, one tensor at a time.
 * @throws CalmError that names the tensor that is missing, has another shape than the configuration says, or is one
 * this architecture has no use for (biases, `rope_freqs`): without it the logits would be wrong
 */
export function loadParameters(
  source: TensorSource,
  config: ModelConfig,
  naming: Naming,
  onTensor: (done: number, total: number) => void = () => undefined,
): Parameters {
  const { hiddenSize, intermediateSize, headDim, heads, kvHeads } = config;
  const total = config.layers * 9 + 2 + (config.tied ? 0 : 1);
  let done = 0;
  const made: Tensor[] = [];
  const used = new Set<string>([naming.unembedding]); // also there, and not needed, in some tied checkpoints
  const read = (name: string, shape: number[]): Tensor => {
    const found = source.shape(name);
    if (found.join() !== shape.join()) {
      throw new CalmError(`tensor ${name} is [${found.join(', ')}], the configuration says [${shape.join(', ')}]`);
    }
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
  const block = (i: number): Block => {
    const vector = (part: BlockPart) => keep(() => read(naming.block(i, part), [hiddenSize]));
    const matrix = (part: BlockPart, out: number, into: number) => read(naming.block(i, part), [out, into]) as Tensor2D;
    const rotary = (part: 'q' | 'k', count: number) => {
      const rows = matrix(part, count * headDim, hiddenSize);
      return naming.interleaved ? rows : interleave(rows, headDim);
    };
    return {
      attentionNorm: vector('attentionNorm'),
      qkv: keep(() =>
        tf.transpose(tf.concat([rotary('q', heads), rotary('k', kvHeads), matrix('v', kvHeads * headDim, hiddenSize)])),
      ),
      attentionOut: keep(() => tf.transpose(matrix('attentionOut', hiddenSize, heads * headDim))),
      mlpNorm: vector('mlpNorm'),
      gate: keep(() => matrix('gate', intermediateSize, hiddenSize)),
      up: keep(() => matrix('up', intermediateSize, hiddenSize)),
      down: keep(() => tf.transpose(matrix('down', hiddenSize, intermediateSize))),
    };
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
