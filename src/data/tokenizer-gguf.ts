import { CalmError } from '../base/errors';
import { readMerges } from './merges';
import { naming } from './naming';
import { GGUF_PRE_TOKENIZERS, split } from './pre-tokenizers';
import { Tokenizer, type TokenizerSource } from './tokenizer';

/** `tokenizer.ggml.token_type`. */
const NORMAL = 1;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

const SPACE = '\u2581'; // SentencePiece writes a space so

/**
 * A tokenizer from the metadata of a GGUF file: byte-level BPE (`tokenizer.ggml.model` = `gpt2`) or SentencePiece BPE
 * (`llama`).
 * @throws CalmError that names the key that is missing, malformed or not supported; `where` stands in front of it
 */
export function tokenizerFromGguf(metadata: Readonly<Record<string, unknown>>, where = 'GGUF'): Tokenizer {
  return naming(where, () => {
    const read = new Metadata(metadata);
    const model = read.string('model');
    if (model === 'gpt2') return new Tokenizer(byteLevel(read));
    if (model === 'llama') return new Tokenizer(sentencePiece(read));
    if (model === undefined) throw new CalmError('there is no tokenizer in it (tokenizer.ggml.model is missing)');
    throw new CalmError(`a tokenizer of the type "${model}" is not supported`, {
      remedy: 'there are: gpt2, llama; or name a folder with tokenizer.json',
    });
  });
}

/** Words are split off by the named patterns, their bytes written as printable characters, and merged by rank. */
function byteLevel(read: Metadata): TokenizerSource {
  const name = read.string('pre') ?? 'default';
  const pre = Object.hasOwn(GGUF_PRE_TOKENIZERS, name) ? GGUF_PRE_TOKENIZERS[name] : undefined;
  if (!pre) {
    throw new CalmError(`a tokenizer with the pre-tokeniser "${name}" is not supported`, {
      remedy: `there are: ${Object.keys(GGUF_PRE_TOKENIZERS).join(', ')}; or name a folder with tokenizer.json`,
    });
  }
  const { vocabulary, added } = read.vocabulary();
  const json = {
    added_tokens: added,
    normalizer: pre.normalizer ? { type: pre.normalizer } : null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [...pre.patterns.map(split), { type: 'ByteLevel', add_prefix_space: false, use_regex: false }],
    },
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(vocabulary),
      merges: readMerges(read.list('merges'), vocabulary),
      unk_token: read.token('unknown_token_id'),
      ignore_merges: pre.ignoreMerges ?? false,
    },
  };
  return read.source(json, pre.addBos ?? false);
}

/**
 * Spaces are written as U+2581, one more is put in front, and of all neighbours whose union is a token the union with
 * the highest score is formed first, the leftmost of equals; a character that is no token becomes its bytes.
 */
function sentencePiece(read: Metadata): TokenizerSource {
  const { vocabulary, added, types } = read.vocabulary();
  const scores = read.list('scores').map(Number);
  if (scores.length !== vocabulary.size) {
    throw new CalmError(`there are ${scores.length} scores for ${vocabulary.size} tokens`);
  }
  const prefix = read.boolean('add_space_prefix') ?? true;
  const replace = (from: string, to: string) => ({ type: 'Replace', pattern: { String: from }, content: to });
  const json = {
    added_tokens: added,
    normalizer: {
      type: 'Sequence',
      normalizers: [...(prefix ? [{ type: 'Prepend', prepend: SPACE }] : []), replace(' ', SPACE)],
    },
    decoder: {
      type: 'Sequence',
      decoders: [
        replace(SPACE, ' '),
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        ...(prefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(vocabulary),
      merges: [],
      unk_token: read.token('unknown_token_id') ?? read.tokenAt(types.indexOf(2)),
      byte_fallback: types.includes(BYTE),
      fuse_unk: true,
    },
  };
  const pieces = [...vocabulary].filter(([, id]) => types[id] === NORMAL);
  return { ...read.source(json, true), mergeRanks: mergeRanks(pieces, scores) };
}

/** All pairs that form one piece share its rank, and pieces of one score share theirs, so that the leftmost wins. */
function mergeRanks(pieces: readonly [string, number][], scores: readonly number[]): Map<string, number> {
  const known = new Set(pieces.map(([piece]) => piece));
  const descending = [...new Set(pieces.map(([, id]) => scores[id] ?? 0))].sort((a, b) => b - a);
  const rankOf = new Map(descending.map((score, rank) => [score, rank]));
  const ranks = new Map<string, number>();
  for (const [piece, id] of pieces) {
    const characters = Array.from(piece);
    for (let at = 1; at < characters.length; at++) {
      const left = characters.slice(0, at).join('');
      const right = characters.slice(at).join('');
      // A single character need not be a token to be merged.
      const formed = (at === 1 || known.has(left)) && (at === characters.length - 1 || known.has(right));
      if (formed) ranks.set(JSON.stringify([left, right]), rankOf.get(scores[id] ?? 0) ?? 0);
    }
  }
  return ranks;
}

/** Typed look-ups of `tokenizer.ggml.*`. */
class Metadata {
  private readonly tokens: string[];

  constructor(private readonly metadata: Readonly<Record<string, unknown>>) {
    this.tokens = this.string('model') === undefined ? [] : this.list('tokens').map(String);
  }

  private value(key: string): unknown {
    return this.metadata[`tokenizer.ggml.${key}`];
  }

  string(key: string): string | undefined {
    const value = this.value(key);
    return typeof value === 'string' ? value : undefined;
  }

  boolean(key: string): boolean | undefined {
    const value = this.value(key);
    return typeof value === 'boolean' ? value : undefined;
  }

  list(key: string): unknown[] {
    const value = this.value(key);
    if (Array.isArray(value)) return value;
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return Array.from(value as Float32Array);
    throw new CalmError(`tokenizer.ggml.${key} is missing or no list`);
  }

  tokenAt(id: number): string | undefined {
    return this.tokens[id];
  }

  /** The token whose id stands under `key`. */
  token(key: string): string | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    const found = this.tokenAt(Number(value));
    if (found === undefined) throw new CalmError(`tokenizer.ggml.${key} (${Number(value)}) is no token`);
    return found;
  }

  vocabulary(): { vocabulary: Map<string, number>; added: object[]; types: number[] } {
    const vocabulary = new Map(this.tokens.map((token, id) => [token, id]));
    if (vocabulary.size !== this.tokens.length) {
      const twice = this.tokens.find((token, id) => vocabulary.get(token) !== id);
      throw new CalmError(`the vocabulary has the token ${JSON.stringify(twice)} more than once`);
    }
    const types = this.value('token_type') === undefined ? [] : this.list('token_type').map(Number);
    if (types.length !== 0 && types.length !== this.tokens.length) {
      throw new CalmError(`there are ${types.length} token types for ${this.tokens.length} tokens`);
    }
    const added = this.tokens.flatMap((content, id) =>
      types[id] === CONTROL || types[id] === USER_DEFINED
        ? [{ id, content, special: types[id] === CONTROL, normalized: false }]
        : [],
    );
    return { vocabulary, added, types };
  }

  source(json: Record<string, unknown>, addBosDefault: boolean): TokenizerSource {
    const template = this.metadata['tokenizer.chat_template'];
    return {
      json,
      bosToken: this.token('bos_token_id'),
      eosToken: this.token('eos_token_id'),
      padToken: this.token('padding_token_id'),
      addBos: this.boolean('add_bos_token') ?? addBosDefault,
      chatTemplate: typeof template === 'string' ? template : undefined,
    };
  }
}
