import { describe, expect, it } from 'vitest';
import { configFromGguf, configFromHuggingFace, rotaryFrequencies, type ModelConfig } from '../../src/model/config';
import { calmError } from './make-files';

const HUGGING_FACE = {
  model_type: 'llama',
  vocab_size: 97,
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-5,
  rope_theta: 500,
  max_position_embeddings: 128,
  tie_word_embeddings: true,
};

const GGUF = {
  'general.architecture': 'llama',
  'tokenizer.ggml.tokens': ['a', 'b', 'c'],
  'llama.embedding_length': 32,
  'llama.feed_forward_length': 48,
  'llama.block_count': 2,
  'llama.attention.head_count': 4,
  'llama.attention.head_count_kv': 2,
  'llama.attention.layer_norm_rms_epsilon': 1e-5,
  'llama.rope.freq_base': 500,
  'llama.rope.dimension_count': 8,
  'llama.context_length': 128,
};

const COMMON: Partial<ModelConfig> = {
  architecture: 'llama',
  hiddenSize: 32,
  intermediateSize: 48,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  normEps: 1e-5,
  ropeTheta: 500,
  maxPositions: 128,
};

const ofHuggingFace = (changes: Record<string, unknown> = {}) =>
  configFromHuggingFace({ ...HUGGING_FACE, ...changes }, 'config.json');
const ofGguf = (changes: Record<string, unknown> = {}) => configFromGguf({ ...GGUF, ...changes }, 'm.gguf', false);

describe('configFromHuggingFace', () => {
  it('reads a config.json', () => {
    expect(ofHuggingFace()).toEqual({ ...COMMON, vocabSize: 97, tied: true });
  });

  it('takes the defaults of transformers for what is missing or null', () => {
    const bare = { num_key_value_heads: null, head_dim: null, rope_theta: undefined, hidden_act: undefined };
    expect(ofHuggingFace({ ...bare, max_position_embeddings: undefined, tie_word_embeddings: undefined })).toEqual({
      ...COMMON,
      vocabSize: 97,
      kvHeads: 4,
      ropeTheta: 10_000,
      maxPositions: 2048,
      tied: false,
    });
    expect(ofHuggingFace({ head_dim: 16 }).headDim).toBe(16); // need not be hidden / heads
  });

  it.each(Object.keys(HUGGING_FACE).slice(1, 6).concat('rms_norm_eps'))('names %s when it is missing', (name) => {
    expect(calmError(() => ofHuggingFace({ [name]: undefined })).line).toBe(
      `config.json: ${name} is missing; expected a positive number`,
    );
  });

  it.each<[Record<string, unknown>, string]>([
    [{ hidden_size: '32' }, 'config.json: hidden_size is "32"'],
    [{ num_hidden_layers: 0 }, 'config.json: num_hidden_layers is 0'],
    [{ num_hidden_layers: 2.5 }, 'config.json: layers is 2.5, not an integer'],
    [{ rms_norm_eps: -1e-5 }, 'config.json: rms_norm_eps is -0.00001'],
    [{ num_attention_heads: 3, num_key_value_heads: 3 }, 'not an integer'],
    [{ num_key_value_heads: 3 }, '4 heads cannot share 3 key-value heads evenly'],
    [{ head_dim: 7 }, 'rotary embedding needs an even head size, not 7'],
    [{ model_type: 'mistral' }, 'model_type "mistral" is not supported; use a Llama-family model'],
    [{ model_type: undefined }, 'model_type undefined is not supported'],
    [{ attention_bias: true }, 'attention_bias is not supported'],
    [{ mlp_bias: true }, 'mlp_bias is not supported'],
    [{ hidden_act: 'gelu' }, 'hidden_act "gelu" is not supported'],
    [{ rope_theta: 'big' }, 'rope_theta is "big"'],
    [{ rope_scaling: { rope_type: 'yarn', factor: 2 } }, 'rope_type "yarn" is not supported'],
    [{ rope_scaling: { type: 'linear', factor: 2 } }, 'rope_type "linear" is not supported'],
    [{ rope_scaling: 'linear' }, 'rope_scaling is "linear", not an object'],
    [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, 'rope_scaling.low_freq_factor is missing'],
  ])('refuses %j', (changes, message) => {
    expect(calmError(() => ofHuggingFace(changes)).line).toContain(message);
  });

  it.each([null, [], 'llama', 3])('refuses a file that holds %j', (json) => {
    expect(calmError(() => configFromHuggingFace(json as never, 'config.json')).line).toBe(
      'config.json is not a JSON object',
    );
  });

  const llama3 = {
    rope_type: 'llama3',
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 32,
  };
  const ropeScaling = { factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 32 };

  it('reads the rope of Llama 3 in its old and its new place', () => {
    expect(ofHuggingFace({ rope_scaling: llama3 })).toMatchObject({ ropeTheta: 500, ropeScaling });
    const inOne = { rope_theta: undefined, rope_parameters: { ...llama3, rope_theta: 700 } };
    expect(ofHuggingFace(inOne)).toMatchObject({ ropeTheta: 700, ropeScaling });
    expect(ofHuggingFace({ rope_scaling: null })).not.toHaveProperty('ropeScaling');
    const unscaled = { rope_theta: undefined, rope_parameters: { rope_type: 'default', rope_theta: 9 } };
    expect(ofHuggingFace(unscaled)).toEqual({ ...ofHuggingFace(), ropeTheta: 9 });
  });
});

describe('configFromGguf', () => {
  it('reads metadata', () => {
    expect(ofGguf()).toEqual({ ...COMMON, vocabSize: 3, tied: false });
    const bare = {
      'tokenizer.ggml.tokens': undefined,
      'llama.vocab_size': 7,
      'llama.attention.head_count_kv': undefined,
      'llama.rope.freq_base': undefined,
      'llama.rope.dimension_count': undefined,
    };
    expect(ofGguf(bare)).toEqual({ ...COMMON, vocabSize: 7, kvHeads: 4, ropeTheta: 10_000, tied: false });
  });

  it.each<[Record<string, unknown>, string]>([
    [{ 'general.architecture': 'qwen2' }, 'm.gguf: architecture "qwen2" is not supported'],
    [{ 'llama.block_count': undefined }, 'm.gguf: llama.block_count is missing; expected a positive number'],
    [{ 'llama.context_length': 'long' }, 'm.gguf: llama.context_length is "long"'],
    // One count for each layer, as some files have it.
    [{ 'llama.attention.head_count_kv': Int32Array.of(2, 1) }, 'm.gguf: llama.attention.head_count_kv is {'],
    [{ 'tokenizer.ggml.tokens': undefined }, 'm.gguf: llama.vocab_size is missing'],
    [{ 'llama.rope.scaling.type': 'yarn' }, 'm.gguf: llama.rope.scaling.type "yarn" is not supported'],
  ])('refuses %j', (changes, message) => {
    expect(calmError(() => ofGguf(changes)).line).toContain(message);
  });

  it('takes a rope that says it is not scaled', () => {
    expect(ofGguf({ 'llama.rope.scaling.type': 'none' })).toEqual(ofGguf());
  });
});

describe('rotaryFrequencies', () => {
  const config = ofHuggingFace(); // head size 8, theta 500

  it('are theta^(-2i/d)', () => {
    const right = [1, 500 ** -0.25, 500 ** -0.5, 500 ** -0.75];
    Array.from(rotaryFrequencies(config)).forEach((f, i) => expect(f).toBeCloseTo(right[i]!, 15));
  });

  it('keep the fast, divide the slow and blend between, by the rule of Llama 3', () => {
    const scaled = {
      ...config,
      ropeScaling: { factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 32 },
    };
    const plain = rotaryFrequencies(config);
    const [fast, blended, slow, slowest] = rotaryFrequencies(scaled);
    // Turns over 32 positions: 5.09, 1.08, 0.23, 0.05.
    expect(fast).toBe(1);
    const smooth = ((32 * plain[1]!) / (2 * Math.PI) - 1) / 3;
    expect(blended).toBeCloseTo(plain[1]! * (smooth + (1 - smooth) / 8), 15);
    expect([slow, slowest]).toEqual([plain[2]! / 8, plain[3]! / 8]);
  });
});
