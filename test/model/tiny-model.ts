import { tf, type Tensor } from '../../src/engine/backend';
import { Random } from '../../src/engine/random';
import type { ModelConfig } from '../../src/model/config';
import { pack, type Sequence } from '../../src/model/packed';
import type { Transformer } from '../../src/model/transformer';
import { forward, unembed } from '../../src/model/transformer';

/** A small Llama model with random weights; 8 heads share 2 key-value heads. */
export function tinyModel(seed = 1, changes: Partial<ModelConfig> = {}): Transformer {
  const config: ModelConfig = {
    architecture: 'llama',
    vocabSize: 23,
    hiddenSize: 16,
    intermediateSize: 24,
    layers: 2,
    heads: 8,
    kvHeads: 2,
    headDim: 4,
    normEps: 1e-5,
    ropeTheta: 100,
    maxPositions: 64,
    tied: false,
    ...changes,
  };
  const { vocabSize, hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  const random = Random.seed(seed).stream('weights');
  const weights = (...shape: number[]): Tensor => {
    const size = shape.reduce((a, b) => a * b, 1);
    // Of unit variance times 0.5: logits spread over a few nats, and attention is far from even.
    return tf.tensor(
      Float32Array.from({ length: size }, () => 0.5 * random.normal()),
      shape,
    );
  };
  const norm = () => tf.add(weights(hiddenSize), 1);
  const parameters = tf.tidy(() => ({
    embedding: weights(vocabSize, hiddenSize),
    blocks: Array.from({ length: config.layers }, () => ({
      attentionNorm: norm(),
      qkv: weights(hiddenSize, (heads + 2 * kvHeads) * headDim),
      attentionOut: weights(heads * headDim, hiddenSize),
      mlpNorm: norm(),
      gate: weights(intermediateSize, hiddenSize),
      up: weights(intermediateSize, hiddenSize),
      down: weights(intermediateSize, hiddenSize),
    })),
    norm: norm(),
    ...(config.tied ? {} : { unembedding: weights(vocabSize, hiddenSize) }),
  }));
  return { config, parameters };
}

/** Logits at every token of each sequence, [tokens, vocab] row-major. */
export function allLogits(model: Transformer, sequences: readonly Sequence[]): Float32Array {
  const packed = pack(sequences);
  return tf.tidy(() => {
    const at = Int32Array.from({ length: packed.n }, (_, i) => i);
    return unembed(model.parameters, forward(model.config, model.parameters, packed, at).hidden).dataSync<'float32'>();
  });
}
