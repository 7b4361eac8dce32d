import { z } from 'zod';
import { CalmError } from '../base/errors';
import { addedTokenSplitter } from '../data/added-tokens';
import { expectType, parsed } from './check';

/** Text to token ids as BERT wants them. */
export interface WordPiece {
  /** The ids of a text, [CLS] and [SEP] around them, `maxLength` of them at most: what is beyond is cut. */
  encode: (text: string) => number[];
  /** The largest id that `encode` can give. */
  maxId: number;
}

const MAX_ID = 2 ** 24; // far beyond any real vocabulary
const id = z.int().min(0).max(MAX_ID);

const addedToken = z.object({
  id,
  content: z.string(),
  special: z.boolean().default(false),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().default(false),
});

const tokenizerJson = z.object({
  added_tokens: z.array(addedToken).default([]),
  normalizer: z.object({
    clean_text: z.boolean().default(true),
    handle_chinese_chars: z.boolean().default(true),
    strip_accents: z.boolean().nullish(),
    lowercase: z.boolean().default(true),
  }),
  post_processor: z.object({
    single: z.array(
      z.union([
        z.object({ SpecialToken: z.object({ id: z.string(), type_id: z.literal(0) }) }),
        z.object({ Sequence: z.object({ id: z.literal('A'), type_id: z.literal(0) }) }),
      ]),
    ),
    special_tokens: z.record(z.string(), z.object({ ids: z.array(id) })),
  }),
  model: z.object({
    vocab: z.custom<Record<string, number>>(isVocabulary, 'expected token ids by token'),
    unk_token: z.string(),
    continuing_subword_prefix: z.string(),
    max_input_chars_per_word: z.int().min(1).default(100),
  }),
});

// By hand because zod drops the key `__proto__`, which may be a token.
function isVocabulary(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    (one: unknown) => Number.isInteger(one) && Number(one) >= 0 && Number(one) <= MAX_ID,
  );
}

type Parsed = z.output<typeof tokenizerJson>;

/**
 * BERT's tokenizer from the parsed content of a `tokenizer.json`: BertNormalizer, BertPreTokenizer, WordPiece and
 * TemplateProcessing, as Hugging Face's tokenizers run them; markers such as `[SEP]` in a text are those tokens.
 * Some 670 characters, marks and punctuation that Unicode has added or moved since about version 8, have their present
 * class here and their old one in the library.
 * @param maxLength ids of a text at most, [CLS] and [SEP] included
 * @throws CalmError that starts with `where`, for another kind of tokenizer or one that is not whole
 */
export function wordPiece(json: unknown, maxLength: number, where: string): WordPiece {
  expectType(where, json, 'normalizer', 'BertNormalizer');
  expectType(where, json, 'pre_tokenizer', 'BertPreTokenizer');
  expectType(where, json, 'model', 'WordPiece');
  expectType(where, json, 'post_processor', 'TemplateProcessing');
  const { added_tokens, normalizer, post_processor, model } = parsed(where, tokenizerJson, json);

  const inNormalised = added_tokens.find((token) => token.normalized);
  if (inNormalised) {
    throw new CalmError(`${where}: the token ${inNormalised.content} is matched in normalised text, not supported`);
  }
  const vocabulary = new Map(Object.entries(model.vocab));
  const unknown = vocabulary.get(model.unk_token);
  if (unknown === undefined) throw new CalmError(`${where}: unk_token ${model.unk_token} is not in the vocabulary`);
  const { before, after } = template(post_processor, where);
  const room = maxLength - before.length - after.length;
  if (room === maxLength) throw new CalmError(`${where}: post_processor.single puts no token around a text`);
  if (room < 0) throw new CalmError(`${where}: ${maxLength} ids have no room for those around every text`);

  const split = addedTokenSplitter(added_tokens);
  const piecesOf = (word: string) => pieces(word, vocabulary, model) ?? [unknown];
  let maxId = 0;
  for (const one of [...vocabulary.values(), ...added_tokens.map((token) => token.id), ...before, ...after]) {
    maxId = Math.max(maxId, one);
  }
  return {
    maxId,
    encode: (text) => {
      const ids = split(text).flatMap((section) =>
        typeof section === 'number' ? [section] : words(normalise(section, normalizer)).flatMap(piecesOf),
      );
      return [...before, ...ids.slice(0, room), ...after];
    },
  };
}

/** The ids that a template puts before and after a text. */
function template({ single, special_tokens }: Parsed['post_processor'], where: string) {
  const at = single.findIndex((step) => 'Sequence' in step);
  if (at < 0 || at !== single.findLastIndex((step) => 'Sequence' in step)) {
    throw new CalmError(`${where}: post_processor.single does not have the text once`);
  }
  const idsOf = (steps: typeof single) =>
    steps.flatMap((step) => {
      if (!('SpecialToken' in step)) return [];
      const name = step.SpecialToken.id;
      const found = Object.hasOwn(special_tokens, name) ? special_tokens[name] : undefined;
      if (!found) throw new CalmError(`${where}: post_processor.special_tokens lacks ${name}`);
      return found.ids;
    });
  return { before: idsOf(single.slice(0, at)), after: idsOf(single.slice(at + 1)) };
}

/** Control characters but for those that are white space to BERT. Unassigned ones (Cn) stay. */
const DROPPED = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\ufffd]/gu;
/** The blocks of Chinese characters, which BERT reads one by one; Japanese kana and Korean are not among them. */
const CHINESE =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

function normalise(text: string, flags: Parsed['normalizer']): string {
  let out = text;
  if (flags.clean_text) out = out.replace(DROPPED, '').replace(/\p{White_Space}/gu, ' ');
  if (flags.handle_chinese_chars) out = out.replace(CHINESE, ' $& ');
  if (flags.strip_accents ?? flags.lowercase) out = out.normalize('NFD').replace(/\p{Mn}/gu, '');
  // One by one: a whole word would end in ς where the library has σ.
  if (flags.lowercase) out = Array.from(out, (character) => character.toLowerCase()).join('');
  return out;
}

/** Every ASCII sign is punctuation to BERT, `$` and `^` too. */
const PUNCTUATION = '\\p{P}!-/:-@\\[-`{-~';
const WORD = new RegExp(`[${PUNCTUATION}]|[^${PUNCTUATION}\\p{White_Space}]+`, 'gu');

/** Words between white space, punctuation apart. */
function words(text: string): string[] {
  return text.match(WORD) ?? [];
}

/** The longest pieces that make a word, from its start on; undefined where they do not, or it is too long. */
function pieces(
  word: string,
  vocabulary: ReadonlyMap<string, number>,
  { continuing_subword_prefix: prefix, max_input_chars_per_word: longest }: Parsed['model'],
): number[] | undefined {
  if (word.length > longest && Array.from(word).length > longest) return undefined;
  const ids: number[] = [];
  for (let start = 0; start < word.length;) {
    let end = word.length + 1;
    let found: number | undefined;
    while (found === undefined) {
      if (--end === start) return undefined;
      found = vocabulary.get((start === 0 ? '' : prefix) + word.slice(start, end));
    }
    ids.push(found);
    start = end;
  }
  return ids;
}
