import { CalmError } from '../base/errors';

/** One step of a `tokenizer.json` pre-tokeniser. */
export type PreTokenizer = { type: string } & Record<string, unknown>;

const CONTRACTIONS = "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])";
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const SPACES = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const LLAMA3 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${SPACES}`;
const QWEN2 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${SPACES}`;

/** What a GGUF file means by the name of its pre-tokeniser (`tokenizer.ggml.pre`), as llama.cpp reads it. */
export interface GgufPreTokenizer {
  /** Applied one after the other; matches and the text between them are split apart. */
  patterns: readonly string[];
  /** A word that is a token as it stands is not built from merges. */
  ignoreMerges?: boolean;
  /** Whether a BOS is wanted where the file does not say. */
  addBos?: boolean;
  /** GGUF does not record normalisers; this one is in the model's own tokenizer.json. */
  normalizer?: 'NFC';
}

const gpt2: GgufPreTokenizer = { patterns: [GPT2] };
const digitsThenGpt2: GgufPreTokenizer = { patterns: ['\\p{N}', GPT2] };
const llama3: GgufPreTokenizer = { patterns: [LLAMA3], ignoreMerges: true, addBos: true };
const cl100k: GgufPreTokenizer = { patterns: [LLAMA3] };
const qwen2: GgufPreTokenizer = { patterns: [QWEN2], normalizer: 'NFC' };

export const GGUF_PRE_TOKENIZERS: Readonly<Record<string, GgufPreTokenizer>> = {
  default: { patterns: ['[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2, '\\p{N}+', '[0-9][0-9][0-9]'] },
  'gpt-2': gpt2,
  'phi-2': gpt2,
  olmo: gpt2,
  mpt: gpt2,
  smollm: digitsThenGpt2,
  starcoder: digitsThenGpt2,
  refact: digitsThenGpt2,
  'command-r': digitsThenGpt2,
  'llama-bpe': llama3,
  llama3,
  'llama-v3': llama3,
  dbrx: cl100k,
  qwen2,
  'deepseek-r1-qwen': qwen2,
};

/** Splits at every match; matches and the text between them are kept. */
export function split(pattern: string): PreTokenizer {
  return { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
}

/** Keeps the matches and drops the text between them. */
function keep(pattern: string): PreTokenizer {
  return { type: 'Split', pattern: { Regex: pattern }, behavior: 'Removed', invert: true };
}

/**
 * Spells steps that the library gets wrong in ones that it gets right, by their definitions in Hugging Face's
 * tokenizers. It compiles the pattern of a `Split` with Unicode's character classes, but the built-in ones with
 * JavaScript's, where `\s` has U+FEFF and lacks U+0085, and `\d` and `\w` are ASCII.
 */
export function corrected(step: PreTokenizer): PreTokenizer {
  switch (step.type) {
    case 'Sequence': {
      const { pretokenizers } = step;
      if (!Array.isArray(pretokenizers)) throw new CalmError('pre_tokenizer: a Sequence without pretokenizers');
      return { ...step, pretokenizers: pretokenizers.map(corrected) };
    }
    case 'Metaspace': {
      // The library knows neither `split` nor the older spelling of `prepend_scheme`.
      const scheme = step['prepend_scheme'] ?? (step['add_prefix_space'] === false ? 'never' : 'always');
      const spaces = { ...step, prepend_scheme: scheme };
      const words = keep('\\u2581[^\\u2581]*|[^\\u2581]+');
      return step['split'] === false ? spaces : { type: 'Sequence', pretokenizers: [spaces, words] };
    }
    case 'Digits':
      return split(step['individual_digits'] ? '\\p{N}' : '\\p{N}+');
    case 'Whitespace':
      return keep('\\w+|[^\\w\\s]+');
    case 'WhitespaceSplit':
      return keep('\\S+');
    case 'ByteLevel': {
      if (step['use_regex'] === false) return step;
      const bytes = { ...step, use_regex: false, add_prefix_space: false };
      const prefix = { type: 'Replace', pattern: { Regex: '\\A(?=[^ ])' }, content: ' ' };
      const steps = [split(GPT2), bytes];
      return { type: 'Sequence', pretokenizers: step['add_prefix_space'] ? [prefix, ...steps] : steps };
    }
    default:
      return step;
  }
}
