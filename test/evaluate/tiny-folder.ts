import * as fs from 'node:fs';
import * as path from 'node:path';
import { Random } from '../../src/engine/random';
import { writeSafetensors } from '../../src/model/safetensors';

/** The characters that stand for the 256 bytes in a byte-level vocabulary. */
function byteCharacters(): string[] {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(printable(b) ? b : next++));
}

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
/** Bytes, BOS, EOS, and a letter after a blank for each of A to Z. */
export const TINY_VOCAB = 256 + 2 + 26;

/** The `tokenizer.json` of a byte-level tokenizer whose only merges are a blank and a capital letter. */
export function tinyTokenizer(): Record<string, unknown> {
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];
  const tokens = [...byteCharacters(), '<s>', '</s>', ...letters.map((letter) => `Ġ${letter}`)];
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    added_tokens: ['<s>', '</s>'].map((content, i) => ({ id: BOS + i, content, special: true })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: letters.map((letter) => ['Ġ', letter]),
    },
  };
}

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
  write('tokenizer.json', tinyTokenizer());
  write('tokenizer_config.json', {
    bos_token: '<s>',
    eos_token: '</s>',
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
