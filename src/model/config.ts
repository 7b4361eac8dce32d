import { CalmError } from '../base/errors';

/** How rotary frequencies are stretched beyond the trained length (Llama 3's piecewise rule). */
export interface Llama3Rope {
  factor: number;
  lowFreqFactor: number;
  highFreqFactor: number;
  originalMaxPositions: number;
}

/** What differs between transformers of the Llama family. Widths in channels. */
export interface ModelConfig {
  architecture: 'llama';
  vocabSize: number;
  hiddenSize: number;
  intermediateSize: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  normEps: number;
  ropeTheta: number;
  ropeScaling?: Llama3Rope;
  maxPositions: number;
  /** Whether the output projection is the embedding matrix. */
  tied: boolean;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function positive(where: string, name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw new CalmError(`${where}: ${name} is ${value === undefined ? 'missing' : JSON.stringify(value)}`, {
    remedy: 'expected a positive number',
  });
}

function checked(where: string, config: ModelConfig): ModelConfig {
  for (const name of [
    'vocabSize',
    'hiddenSize',
    'intermediateSize',
    'layers',
    'heads',
    'kvHeads',
    'headDim',
  ] as const) {
    if (!Number.isSafeInteger(config[name]))
      throw new CalmError(`${where}: ${name} is ${config[name]}, not an integer`);
  }
  if (config.heads % config.kvHeads !== 0) {
    throw new CalmError(`${where}: ${config.heads} heads cannot share ${config.kvHeads} key-value heads evenly`);
  }
  if (config.headDim % 2 !== 0)
    throw new CalmError(`${where}: rotary embedding needs an even head size, not ${config.headDim}`);
  return config;
}

/** The configuration in a GGUF's metadata. @throws CalmError that names the key. */
export function configFromGguf(metadata: Readonly<Record<string, unknown>>, where: string, tied: boolean): ModelConfig {
  const architecture = metadata['general.architecture'];
  if (architecture !== 'llama') {
    throw new CalmError(`${where}: architecture ${JSON.stringify(architecture)} is not supported`, {
      remedy: 'use a Llama-family model',
    });
  }
  // Llama 3's rule is not here but in a tensor, which `loadParameters` refuses.
  const scaling = metadata['llama.rope.scaling.type'] ?? 'none';
  if (scaling !== 'none') {
    throw new CalmError(`${where}: llama.rope.scaling.type ${JSON.stringify(scaling)} is not supported`);
  }
  const get = (key: string) => positive(where, `llama.${key}`, metadata[`llama.${key}`]);
  const optional = (key: string, otherwise: number) => (metadata[`llama.${key}`] === undefined ? otherwise : get(key));
  const tokens = metadata['tokenizer.ggml.tokens'];
  const heads = get('attention.head_count');
  const hiddenSize = get('embedding_length');
  return checked(where, {
    architecture: 'llama',
    vocabSize: Array.isArray(tokens) ? tokens.length : get('vocab_size'),
    hiddenSize,
    intermediateSize: get('feed_forward_length'),
    layers: get('block_count'),
    heads,
    kvHeads: optional('attention.head_count_kv', heads),
    headDim: optional('rope.dimension_count', hiddenSize / heads),
    normEps: get('attention.layer_norm_rms_epsilon'),
    ropeTheta: optional('rope.freq_base', 10_000),
    maxPositions: get('context_length'),
    tied,
  });
}

/** The configuration in a Hugging Face `config.json`. @throws CalmError that names the field. */
export function configFromHuggingFace(json: Readonly<Record<string, unknown>>, where: string): ModelConfig {
  if (!isObject(json)) throw new CalmError(`${where} is not a JSON object`);
  if (json['model_type'] !== 'llama') {
    throw new CalmError(`${where}: model_type ${JSON.stringify(json['model_type'])} is not supported`, {
      remedy: 'use a Llama-family model',
    });
  }
  for (const flag of ['attention_bias', 'mlp_bias']) {
    if (json[flag] === true) throw new CalmError(`${where}: ${flag} is not supported`);
  }
  const activation = json['hidden_act'] ?? 'silu';
  if (activation !== 'silu') throw new CalmError(`${where}: hidden_act ${JSON.stringify(activation)} is not supported`);
  const get = (name: string) => positive(where, name, json[name]);
  const optional = (name: string, otherwise: number) =>
    json[name] === undefined || json[name] === null ? otherwise : get(name);
  const heads = get('num_attention_heads');
  const hiddenSize = get('hidden_size');
  return checked(where, {
    architecture: 'llama',
    vocabSize: get('vocab_size'),
    hiddenSize,
    intermediateSize: get('intermediate_size'),
    layers: get('num_hidden_layers'),
    heads,
    kvHeads: optional('num_key_value_heads', heads),
    headDim: optional('head_dim', hiddenSize / heads),
    normEps: get('rms_norm_eps'),
    ...rope(json, where),
    maxPositions: optional('max_position_embeddings', 2048),
    tied: json['tie_word_embeddings'] === true,
  });
}

/** `rope_theta` and `rope_scaling`, or both in `rope_parameters` as newer checkpoints write them. */
function rope(json: Readonly<Record<string, unknown>>, where: string): Pick<ModelConfig, 'ropeTheta' | 'ropeScaling'> {
  const scaling = json['rope_parameters'] ?? json['rope_scaling'] ?? {};
  if (!isObject(scaling)) throw new CalmError(`${where}: rope_scaling is ${JSON.stringify(scaling)}, not an object`);
  const theta = json['rope_theta'] ?? scaling['rope_theta'] ?? 10_000;
  const ropeTheta = positive(where, 'rope_theta', theta);
  const kind = scaling['rope_type'] ?? scaling['type'] ?? 'default';
  if (kind === 'default') return { ropeTheta };
  if (kind !== 'llama3') throw new CalmError(`${where}: rope_type ${JSON.stringify(kind)} is not supported`);
  const get = (name: string) => positive(where, `rope_scaling.${name}`, scaling[name]);
  return {
    ropeTheta,
    ropeScaling: {
      factor: get('factor'),
      lowFreqFactor: get('low_freq_factor'),
      highFreqFactor: get('high_freq_factor'),
      originalMaxPositions: get('original_max_position_embeddings'),
    },
  };
}

/** Rotary frequencies in radians a position, one for each channel pair of a head: theta^(-2i/d), scaled. */
export function rotaryFrequencies(config: ModelConfig): Float64Array {
  const half = config.headDim / 2;
  const plain = Float64Array.from({ length: half }, (_, i) => config.ropeTheta ** ((-2 * i) / config.headDim));
  const scaling = config.ropeScaling;
  if (!scaling) return plain;
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPositions } = scaling;
  return plain.map((frequency) => {
    const turns = (originalMaxPositions * frequency) / (2 * Math.PI); // over the original length
    if (turns > highFreqFactor) return frequency;
    if (turns < lowFreqFactor) return frequency / factor;
    const smooth = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return ((1 - smooth) * frequency) / factor + smooth * frequency;
  });
}
