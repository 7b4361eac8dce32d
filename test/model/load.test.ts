import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, leaves } from '../../src/engine/tree';
import {
  configFromGguf,
  configFromHuggingFace,
  GGUF_NAMES,
  HUGGING_FACE_NAMES,
  loadParameters,
  openCheckpoint,
  openGguf,
} from '../../src/model';
import { writeSafetensors } from '../../src/model/safetensors';
import { maxAbsDifference } from '../shared';
import { calmError, makeGguf, temporaryFolder } from './make-files';
import { allLogits } from './tiny-model';

beforeAll(startEngine);
const folder = temporaryFolder();

// As T-10 wants: 8 heads and 2 key-value heads, since 4/2 hides a wrong head count (4 / 2 = 2).
const HEADS = 8;
const KV_HEADS = 2;
const HEAD_DIM = 4;
const VOCAB = 29;
const HIDDEN = 32;
const MIDDLE = 40;

type Weights = Record<string, { shape: number[]; data: Float32Array }>;

/** A two-block model as Hugging Face stores it. */
function weights(): Weights {
  const random = Random.seed(10).stream('weights');
  const out: Weights = {};
  const put = (name: string, mean: number, ...shape: number[]) => {
    const size = shape.reduce((a, b) => a * b, 1);
    out[name] = { shape, data: Float32Array.from({ length: size }, () => mean + 0.4 * random.normal()) };
  };
  put('model.embed_tokens.weight', 0, VOCAB, HIDDEN);
  for (const i of [0, 1]) {
    const block = `model.layers.${i}`;
    put(`${block}.input_layernorm.weight`, 1, HIDDEN);
    put(`${block}.self_attn.q_proj.weight`, 0, HEADS * HEAD_DIM, HIDDEN);
    put(`${block}.self_attn.k_proj.weight`, 0, KV_HEADS * HEAD_DIM, HIDDEN);
    put(`${block}.self_attn.v_proj.weight`, 0, KV_HEADS * HEAD_DIM, HIDDEN);
    put(`${block}.self_attn.o_proj.weight`, 0, HIDDEN, HEADS * HEAD_DIM);
    put(`${block}.post_attention_layernorm.weight`, 1, HIDDEN);
    put(`${block}.mlp.gate_proj.weight`, 0, MIDDLE, HIDDEN);
    put(`${block}.mlp.up_proj.weight`, 0, MIDDLE, HIDDEN);
    put(`${block}.mlp.down_proj.weight`, 0, HIDDEN, MIDDLE);
  }
  put('model.norm.weight', 1, HIDDEN);
  put('lm_head.weight', 0, VOCAB, HIDDEN);
  return out;
}

const CONFIG = {
  model_type: 'llama',
  vocab_size: VOCAB,
  hidden_size: HIDDEN,
  intermediate_size: MIDDLE,
  num_hidden_layers: 2,
  num_attention_heads: HEADS,
  num_key_value_heads: KV_HEADS,
  rms_norm_eps: 1e-5,
  rope_theta: 500,
};

function fromHuggingFace(tensors: Weights, changes: Record<string, unknown> = {}) {
  writeSafetensors(path.join(folder, 'model.safetensors'), tensors);
  const config = configFromHuggingFace({ ...CONFIG, ...changes }, 'config.json');
  const source = openCheckpoint(folder);
  try {
    return { config, parameters: loadParameters(source, config, HUGGING_FACE_NAMES) };
  } finally {
    source.close();
  }
}

const GGUF_PART: [RegExp, string][] = [
  [/^model\.embed_tokens/, 'token_embd'],
  [/^model\.norm/, 'output_norm'],
  [/^lm_head/, 'output'],
  [/^model\.layers\.(\d)\.input_layernorm/, 'blk.$1.attn_norm'],
  [/^model\.layers\.(\d)\.self_attn\.([qkv])_proj/, 'blk.$1.attn_$2'],
  [/^model\.layers\.(\d)\.self_attn\.o_proj/, 'blk.$1.attn_output'],
  [/^model\.layers\.(\d)\.post_attention_layernorm/, 'blk.$1.ffn_norm'],
  [/^model\.layers\.(\d)\.mlp\.(gate|up|down)_proj/, 'blk.$1.ffn_$2'],
];

/** What llama.cpp's converter does to q and k: per head, reshape [2, half, columns] and swap the first two axes. */
function permuted(data: Float32Array, heads: number): Float32Array {
  const half = data.length / HIDDEN / heads / 2;
  const out: number[] = [];
  for (let h = 0; h < heads; h++)
    for (let j = 0; j < half; j++)
      for (let s = 0; s < 2; s++) {
        const row = (h * 2 + s) * half + j;
        out.push(...data.subarray(row * HIDDEN, (row + 1) * HIDDEN));
      }
  return Float32Array.from(out);
}

function fromGguf(tensors: Weights, keyHeads = KV_HEADS) {
  const file = path.join(folder, 'model.gguf');
  const { bytes } = makeGguf({
    metadata: [
      ['general.architecture', 'string', 'llama'],
      ['llama.vocab_size', 'u32', VOCAB],
      ['llama.embedding_length', 'u32', HIDDEN],
      ['llama.feed_forward_length', 'u32', MIDDLE],
      ['llama.block_count', 'u32', 2],
      ['llama.attention.head_count', 'u32', HEADS],
      ['llama.attention.head_count_kv', 'u32', KV_HEADS],
      ['llama.attention.layer_norm_rms_epsilon', 'f32', 1e-5],
      ['llama.rope.freq_base', 'f32', 500],
      ['llama.context_length', 'u32', 64],
    ],
    tensors: Object.entries(tensors).map(([name, { shape, data }]) => {
      const [pattern, part] = GGUF_PART.find(([p]) => p.test(name)) ?? [name, name];
      const heads = name.includes('q_proj') ? HEADS : name.includes('k_proj') ? keyHeads : 0;
      const rows = heads > 0 ? permuted(data, heads) : data;
      return {
        name: name.replace(pattern, part),
        dims: [...shape].reverse(),
        type: 0,
        data: new Uint8Array(rows.buffer),
      };
    }),
  });
  fs.writeFileSync(file, bytes);
  const gguf = openGguf(file);
  const config = configFromGguf(gguf.metadata, file, false);
  const parameters = loadParameters(gguf, config, GGUF_NAMES);
  gguf.close();
  return { config, parameters };
}

describe('T-10: the layouts of Hugging Face and llama.cpp', () => {
  const text = [{ ids: Array.from({ length: 20 }, (_, i) => (7 * i + 3) % VOCAB) }];

  it('give equal logits to 1e-4 at every position, with 8 heads and 2 key-value heads', () => {
    const [one, other] = [fromHuggingFace(weights()), fromGguf(weights())];
    const [a, b] = [allLogits(one, text), allLogits(other, text)];
    for (let position = 0; position < 20; position++) {
      const at = (logits: Float32Array) => logits.subarray(position * VOCAB, (position + 1) * VOCAB);
      expect(maxAbsDifference(at(a), at(b)), `position ${position}`).toBeLessThan(1e-4);
    }
    dispose([one.parameters, other.parameters] as never);
  });

  it('differ from position 1 on when keys are permuted by the wrong head count, so the test above can tell', () => {
    const [one, other] = [fromHuggingFace(weights()), fromGguf(weights(), 1)];
    const [a, b] = [allLogits(one, text), allLogits(other, text)];
    expect(maxAbsDifference(a.subarray(0, VOCAB), b.subarray(0, VOCAB))).toBeLessThan(1e-4);
    expect(maxAbsDifference(a.subarray(8 * VOCAB), b.subarray(8 * VOCAB))).toBeGreaterThan(0.01);
    dispose([one.parameters, other.parameters] as never);
  });
});

describe('loadParameters', () => {
  it('lays the weights out [in, out], query, key and value in one', () => {
    const { parameters } = fromHuggingFace(weights());
    const shapes = Object.fromEntries(leaves(parameters as never).map(([name, leaf]) => [name, leaf.shape]));
    expect(shapes).toMatchObject({
      embedding: [VOCAB, HIDDEN],
      'blocks.1.qkv': [HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM],
      'blocks.1.gate': [MIDDLE, HIDDEN],
      'blocks.1.up': [MIDDLE, HIDDEN],
      'blocks.1.down': [MIDDLE, HIDDEN],
      unembedding: [VOCAB, HIDDEN],
    });
    dispose(parameters);
  });

  it('counts every tensor it reads', () => {
    const steps: [number, number][] = [];
    writeSafetensors(path.join(folder, 'model.safetensors'), weights());
    const source = openCheckpoint(folder);
    const config = configFromHuggingFace(CONFIG, 'config.json');
    dispose(loadParameters(source, config, HUGGING_FACE_NAMES, (done, total) => steps.push([done, total])));
    source.close();
    expect(steps).toEqual(Object.keys(weights()).map((_, i, all) => [i + 1, all.length]));
  });

  it('ties the output to the embedding, though the file has a matrix for it', () => {
    const { parameters } = fromHuggingFace(weights(), { tie_word_embeddings: true });
    expect(parameters.unembedding).toBeUndefined();
    dispose(parameters);
  });

  const name = 'model.layers.1.mlp.up_proj.weight';
  const without = (tensors: Weights) => (delete tensors[name], tensors);
  const also = (extra: string) => ({ ...weights(), [extra]: { shape: [2], data: new Float32Array(2) } });

  it.each<[string, () => unknown, string]>([
    ['a missing tensor', () => fromHuggingFace(without(weights())), `has no tensor "${name}"`],
    [
      'another shape than the configuration says',
      () => fromHuggingFace(weights(), { intermediate_size: 48 }),
      'tensor model.layers.0.mlp.gate_proj.weight is [40, 32], the configuration says [48, 32]',
    ],
    [
      'more blocks than the configuration says',
      () => fromHuggingFace(weights(), { num_hidden_layers: 1 }),
      'tensor "model.layers.1.input_layernorm.weight" has no place in a 1-block Llama model',
    ],
    [
      'a bias, which would be left out',
      () => fromHuggingFace(also('model.layers.0.self_attn.q_proj.bias')),
      'tensor "model.layers.0.self_attn.q_proj.bias" has no place',
    ],
  ])('names the tensor: %s; and frees what it had read', async (_what, read, message) => {
    expect(await tensorsKept(() => expect(calmError(read).line).toContain(message))).toBe(0);
  });

  it('refuses the rotary factors of Llama 3.1 in a GGUF file, and takes the frequencies of old checkpoints', () => {
    expect(calmError(() => fromGguf(also('rope_freqs.weight'))).line).toContain('"rope_freqs.weight" has no place');
    dispose(fromHuggingFace(also('model.layers.0.self_attn.rotary_emb.inv_freq')).parameters);
  });
});
