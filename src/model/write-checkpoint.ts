import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { makeFolder, toJson, writeFile } from '../base/files';
import { tf, type Tensor, type Tensor2D } from '../engine/backend';
import type { Random } from '../engine/random';
import type { ModelConfig } from './config';
import { HUGGING_FACE_NAMES as NAMES } from './load';
import { deinterleave } from './rotary-layout';
import { writeSafetensors } from './safetensors';
import { blockOf, type Parameters, type Transformer } from './transformer';

/**
 * Writes `config.json` and `model.safetensors` (float32, one file) as Hugging Face has them, each whole or not at all.
 * @throws CalmError for weights with a bias (a calibration head's), which the Llama architecture has no place for, or when
 *   the folder cannot be written
 */
export function writeCheckpoint(folder: string, { config, parameters }: Transformer): void {
  if (parameters.bias) {
    throw new CalmError('a calibration head cannot be part of a Llama checkpoint: it has no bias of the logits', {
      remedy: 'leave the head out, and keep it beside the model with its adapter',
    });
  }
  const { heads, kvHeads, headDim } = config;
  const tensors: Record<string, { shape: number[]; data: Float32Array }> = {};
  const put = (name: string, tensor: Tensor) => {
    tensors[name] = { shape: tensor.shape, data: tensor.dataSync<'float32'>() };
  };
  tf.tidy(() => {
    put(NAMES.embedding, parameters.embedding);
    put(NAMES.norm, parameters.norm);
    if (parameters.unembedding) put(NAMES.unembedding, parameters.unembedding);
  });
  parameters.blocks.forEach((held, i) =>
    tf.tidy(() => {
      const block = blockOf(held);
      const [q, k, v] = tf.split(tf.transpose(block.qkv), [heads, kvHeads, kvHeads].map((n) => n * headDim)); // prettier-ignore
      put(NAMES.block(i, 'attentionNorm'), block.attentionNorm);
      put(NAMES.block(i, 'q'), deinterleave(q as Tensor2D, headDim));
      put(NAMES.block(i, 'k'), deinterleave(k as Tensor2D, headDim));
      put(NAMES.block(i, 'v'), v!);
      put(NAMES.block(i, 'attentionOut'), tf.transpose(block.attentionOut));
      put(NAMES.block(i, 'mlpNorm'), block.mlpNorm);
      put(NAMES.block(i, 'gate'), block.gate);
      put(NAMES.block(i, 'up'), block.up);
      put(NAMES.block(i, 'down'), tf.transpose(block.down));
    }),
  );
  makeFolder(folder);
  writeFile(path.join(folder, 'config.json'), `${toJson(huggingFaceConfig(config), 2)}\n`);
  writeSafetensors(path.join(folder, 'model.safetensors'), tensors, { format: 'pt' });
}

function huggingFaceConfig(config: ModelConfig): Record<string, unknown> {
  const { ropeScaling: rope } = config;
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_act: 'silu',
    torch_dtype: 'float32',
    vocab_size: config.vocabSize,
    hidden_size: config.hiddenSize,
    intermediate_size: config.intermediateSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    rms_norm_eps: config.normEps,
    rope_theta: config.ropeTheta,
    ...(rope && {
      rope_scaling: {
        rope_type: 'llama3',
        factor: rope.factor,
        low_freq_factor: rope.lowFreqFactor,
        high_freq_factor: rope.highFreqFactor,
        original_max_position_embeddings: rope.originalMaxPositions,
      },
    }),
    max_position_embeddings: config.maxPositions,
    tie_word_embeddings: config.tied,
  };
}

/**
 * Random weights, which the caller disposes of: norms 1, embeddings of unit variance, every matrix normal with variance
 * 1 / inputs, so that activations neither grow nor fade.
 */
export function randomParameters(config: ModelConfig, random: Random): Parameters {
  const { vocabSize, hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  const normal = (name: string, shape: [number, number], variance: number) => {
    const stream = random.stream(name);
    const scale = Math.sqrt(variance);
    return tf.tensor2d(
      Float32Array.from({ length: shape[0] * shape[1] }, () => scale * stream.normal()),
      shape,
    );
  };
  const matrix = (name: string, shape: [number, number], inputs: number) => normal(name, shape, 1 / inputs);
  return {
    embedding: normal('embedding', [vocabSize, hiddenSize], 1),
    blocks: Array.from({ length: config.layers }, (_, i) => ({
      attentionNorm: tf.ones([hiddenSize]),
      qkv: matrix(`${i}.qkv`, [hiddenSize, (heads + 2 * kvHeads) * headDim], hiddenSize),
      attentionOut: matrix(`${i}.attentionOut`, [heads * headDim, hiddenSize], heads * headDim),
      mlpNorm: tf.ones([hiddenSize]),
      gate: matrix(`${i}.gate`, [intermediateSize, hiddenSize], hiddenSize),
      up: matrix(`${i}.up`, [intermediateSize, hiddenSize], hiddenSize),
      down: matrix(`${i}.down`, [intermediateSize, hiddenSize], intermediateSize),
    })),
    norm: tf.ones([hiddenSize]),
    ...(!config.tied && { unembedding: matrix('unembedding', [vocabSize, hiddenSize], hiddenSize) }),
  };
}
