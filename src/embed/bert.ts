import { CalmError } from '../base/errors';
import { tf, type Tensor, type Tensor2D, type Tensor3D, type Tensor4D } from '../engine/backend';
import { batchMatmul, matmul } from '../engine/ops';
import type { TensorSource } from '../model';
import type { BertConfig } from './config';

/** A linear layer: x [n, in] -> x weight + bias. */
type Linear = { weight: Tensor; bias: Tensor }; // [in, out] and [out]
/** The scale and shift of a layer norm, [hidden] each. */
type Norm = { weight: Tensor; bias: Tensor };

/** One encoder block's weights; 1 / sqrt(channels of a head) is in the queries. */
type Block = {
  qkv: Linear; // hidden -> 3 hidden
  attentionOut: Linear; // hidden -> hidden
  attentionNorm: Norm;
  up: Linear; // hidden -> intermediate
  down: Linear; // intermediate -> hidden
  outputNorm: Norm;
};

/** All weights of a BERT encoder, as a parameter tree. */
export type BertParameters = {
  words: Tensor; // [vocab, hidden]
  /** Position p of a text's only segment: the embeddings of p and of token type 0. */
  positions: Tensor; // [maxPositions, hidden]
  embeddingNorm: Norm;
  blocks: Block[];
};

/** There, and of no use to sentence vectors: the pooler of [CLS], and the numbers 0, 1, 2, … in older checkpoints. */
const UNUSED = /^pooler\.dense\.(weight|bias)$|^embeddings\.(position_ids|token_type_ids)$/;

/**
 * Reads the weights of a `BertModel` into the engine.
 * @throws CalmError that starts with `where` and names the tensor which is missing, of another shape than the configuration says, or without a
 *   place in the model
 */
export function loadBert(source: TensorSource, config: BertConfig, where: string): BertParameters {
  const { hiddenSize, intermediateSize, heads } = config;
  const used = new Set<string>();
  const made: Tensor[] = [];
  const read = (name: string, ...shape: number[]): Tensor => {
    const found = source.shape(name);
    if (found.join() !== shape.join()) {
      throw new CalmError(`${where}: tensor ${name} is [${found.join(', ')}], config.json says [${shape.join(', ')}]`);
    }
    used.add(name);
    return tf.tensor(source.float32(name), shape, 'float32');
  };
  const keep = (make: () => Tensor): Tensor => {
    const tensor = tf.tidy(make);
    made.push(tensor);
    return tensor;
  };
  const norm = (name: string): Norm => ({
    weight: keep(() => read(`${name}.weight`, hiddenSize)),
    bias: keep(() => read(`${name}.bias`, hiddenSize)),
  });
  // Turned once: the WebAssembly engine is many times slower with a matrix that it has to take transposed.
  const dense = (name: string, into: number, out: number): Linear => ({
    weight: keep(() => tf.transpose(read(`${name}.weight`, out, into))),
    bias: keep(() => read(`${name}.bias`, out)),
  });
  const block = (i: number): Block => {
    const at = (name: string) => `encoder.layer.${i}.${name}`;
    const joined = (kind: string, ...shape: number[]) => {
      const [query, key, value] = ['query', 'key', 'value'].map((part) =>
        read(at(`attention.self.${part}.${kind}`), ...shape),
      );
      return tf.concat([tf.mul(query!, 1 / Math.sqrt(hiddenSize / heads)), key!, value!]);
    };
    return {
      qkv: {
        weight: keep(() => tf.transpose(joined('weight', hiddenSize, hiddenSize))),
        bias: keep(() => joined('bias', hiddenSize)),
      },
      attentionOut: dense(at('attention.output.dense'), hiddenSize, hiddenSize),
      attentionNorm: norm(at('attention.output.LayerNorm')),
      up: dense(at('intermediate.dense'), hiddenSize, intermediateSize),
      down: dense(at('output.dense'), intermediateSize, hiddenSize),
      outputNorm: norm(at('output.LayerNorm')),
    };
  };
  try {
    const parameters: BertParameters = {
      words: keep(() => read('embeddings.word_embeddings.weight', config.vocabSize, hiddenSize)),
      positions: keep(() => {
        const types = read('embeddings.token_type_embeddings.weight', config.typeVocabSize, hiddenSize);
        const positions = read('embeddings.position_embeddings.weight', config.maxPositions, hiddenSize);
        return tf.add(positions, tf.slice(types, [0, 0], [1, hiddenSize]));
      }),
      embeddingNorm: norm('embeddings.LayerNorm'),
      blocks: Array.from({ length: config.layers }, (_, i) => block(i)),
    };
    for (const name of source.names()) {
      if (used.has(name) || UNUSED.test(name)) continue;
      const quoted = JSON.stringify(name.slice(0, 80));
      throw new CalmError(`${where}: tensor ${quoted} has no place in a BERT encoder of ${config.layers} blocks`);
    }
    return parameters;
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
}

/** Added to the score of a key that is padding; finite, and beside it every real score wins. */
const HIDDEN = -1e30;

/**
 * Runs the encoder (Devlin et al. 2019, post-norm, exact GELU) on texts, padded to the longest, and takes the mean of each
 * text's final hidden states over its own tokens.
 * @param texts token ids of each, 1 to `maxPositions` of them, all within the vocabulary (a GPU would not notice)
 * @returns [texts, hidden]
 */
export function meanHidden(config: BertConfig, parameters: BertParameters, texts: readonly number[][]): Tensor2D {
  const { hiddenSize } = config;
  const rows = texts.length;
  const width = Math.max(...texts.map((ids) => ids.length));
  const ids = new Int32Array(rows * width); // padding is token 0, which nothing looks at
  const hidden = new Float32Array(rows * width).fill(HIDDEN);
  const share = new Float32Array(rows * width);
  texts.forEach((text, row) => {
    ids.set(text, row * width);
    hidden.fill(0, row * width, row * width + text.length);
    share.fill(1 / text.length, row * width, row * width + text.length);
  });
  return tf.tidy((): Tensor2D => {
    const mask = tf.tensor4d(hidden, [rows, 1, 1, width]);
    let x = tf.tidy((): Tensor2D => {
      const words = tf.reshape(tf.gather(parameters.words, tf.tensor1d(ids, 'int32')), [rows, width, hiddenSize]);
      const embedded = tf.add(words, tf.slice(parameters.positions, [0, 0], [width, hiddenSize]));
      return layerNorm(tf.reshape(embedded, [rows * width, hiddenSize]), parameters.embeddingNorm, config);
    });
    for (const block of parameters.blocks) {
      const previous = x;
      x = tf.tidy(() => runBlock(config, block, previous, mask));
      previous.dispose();
    }
    const shares = tf.tensor3d(share, [rows, 1, width]);
    const means = tf.matMul<Tensor3D>(shares, tf.reshape(x, [rows, width, hiddenSize]));
    return tf.reshape(means, [rows, hiddenSize]);
  });
}

/** One block of x [rows * width, hidden]. */
function runBlock(config: BertConfig, block: Block, x: Tensor2D, mask: Tensor4D): Tensor2D {
  const attended = tf.tidy(() => linear(attention(config, linear(x, block.qkv), mask), block.attentionOut));
  const middle = layerNorm(tf.add(x, attended), block.attentionNorm, config);
  const out = tf.tidy(() => linear(gelu(linear(middle, block.up)), block.down));
  return layerNorm(tf.add(middle, out), block.outputNorm, config);
}

/** Attention of every token to all real tokens of its text: qkv [rows * width, 3 hidden] -> [rows * width, hidden]. */
function attention({ hiddenSize, heads }: BertConfig, qkv: Tensor2D, mask: Tensor4D): Tensor2D {
  const [rows, , , width] = mask.shape;
  const headDim = hiddenSize / heads;
  const parts = tf.transpose(tf.reshape(qkv, [rows, width, 3 * heads, headDim]), [0, 2, 1, 3]);
  const [queries, keys, values] = tf.split<Tensor4D>(parts, 3, 1); // [rows, heads, width, headDim] each
  const scores = batchMatmul(queries!, keys!, { transposeB: true });
  const weights = tf.softmax(tf.add<Tensor4D>(scores, mask));
  const attended = tf.transpose(batchMatmul(weights, values!), [0, 2, 1, 3]);
  return tf.reshape(attended, [rows * width, hiddenSize]);
}

function linear(x: Tensor2D, { weight, bias }: Linear): Tensor2D {
  return tf.add(matmul(x, weight as Tensor2D), bias);
}

/** (x - mean) / sqrt(variance + eps) * weight + bias of each row of x [n, c], the variance over c, not c - 1. */
function layerNorm(x: Tensor2D, { weight, bias }: Norm, { normEps }: BertConfig): Tensor2D {
  return tf.tidy((): Tensor2D => {
    const { mean, variance } = tf.moments(x, 1, true);
    const scale = tf.rsqrt(tf.add(variance, normEps)); // [n, 1]
    return tf.add(tf.mul(tf.mul(tf.sub(x, mean), scale), weight), bias);
  });
}

/** x / 2 * (1 + erf(x / sqrt 2)), not its approximation by tanh. */
function gelu(x: Tensor2D): Tensor2D {
  return tf.tidy((): Tensor2D => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1)));
}
