import * as fs from 'node:fs';
import * as path from 'node:path';
import { BYTE_TOKENS, byteTokenizer } from '../../src/data/byte-tokenizer';
import { Random } from '../../src/engine/random';
import { writeSafetensors } from '../../src/model/safetensors';

export interface TinyFolder {
  seed?: number;
  maxPositions?: number;
  addBos?: boolean;
  chatTemplate?: string;
  /** Rows of the embedding that no token has. */
  padding?: number;
}

export const BOS = 256;
export const EOS = 257;
export const TINY_VOCAB = BYTE_TOKENS;
/** The `tokenizer.json` of these folders. */
export const tinyTokenizer = () => byteTokenizer().tokenizer;

/** Writes a one-block Llama model with random weights, in Hugging Face layout, that reads any text. @returns the folder */
export function writeTinyFolder(folder: string, options: TinyFolder = {}): string {
  const { seed = 1, maxPositions = 512, addBos = false, chatTemplate, padding = 0 } = options;
  const [hidden, middle, heads, kvHeads, vocab] = [16, 24, 4, 1, TINY_VOCAB + padding];
  const random = Random.seed(seed).stream('weights');
  const weights = (mean: number, ...shape: number[]) => ({
    shape,
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => mean + 0.5 * random.normal()),
  });
  const block = 'model.layers.0';
  fs.mkdirSync(folder, { recursive: true });
  writeSafetensors(path.join(folder, 'model.safetensors'), {
    'model.embed_tokens.weight': weights(0, vocab, hidden),
    [`${block}.input_layernorm.weight`]: weights(1, hidden),
    [`${block}.self_attn.q_proj.weight`]: weights(0, hidden, hidden),
    [`${block}.self_attn.k_proj.weight`]: weights(0, (hidden / heads) * kvHeads, hidden),
    [`${block}.self_attn.v_proj.weight`]: weights(0, (hidden / heads) * kvHeads, hidden),
    [`${block}.self_attn.o_proj.weight`]: weights(0, hidden, hidden),
    [`${block}.post_attention_layernorm.weight`]: weights(1, hidden),
    [`${block}.mlp.gate_proj.weight`]: weights(0, middle, hidden),
    [`${block}.mlp.up_proj.weight`]: weights(0, middle, hidden),
    [`${block}.mlp.down_proj.weight`]: weights(0, hidden, middle),
    'model.norm.weight': weights(1, hidden),
    'lm_head.weight': weights(0, vocab, hidden),
  });
  const write = (name: string, json: unknown) => fs.writeFileSync(path.join(folder, name), JSON.stringify(json));
  write('config.json', {
    model_type: 'llama',
    vocab_size: vocab,
    hidden_size: hidden,
    intermediate_size: middle,
    num_hidden_layers: 1,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    max_position_embeddings: maxPositions,
  });
  const { tokenizer, config } = byteTokenizer();
  write('tokenizer.json', tokenizer);
  write('tokenizer_config.json', {
    ...config,
    add_bos_token: addBos,
    ...(chatTemplate !== undefined && { chat_template: chatTemplate }),
  });
  return folder;
}

/** Writes rows as JSON lines. @returns the file */
export function writeJsonl(file: string, rows: readonly unknown[]): string {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return file;
}

/** Reads JSON lines. */
export function readJsonl<T>(file: string): T[] {
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as T);
}
