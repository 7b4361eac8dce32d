import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Tokenizer, tokenizerFromJson } from '../../src/data';

interface Fixture {
  texts: string[];
  tokenizers: Record<
    string,
    { json: object; config: object; rows: { ids: number[]; text_ids?: number[]; decoded?: string }[] }
  >;
}
const fixture = JSON.parse(
  fs.readFileSync(path.join(__dirname, '../fixtures/data/tokenizers.json'), 'utf8'),
) as Fixture;

function load(name: string, config: object = {}): Tokenizer {
  const { json, config: own } = fixture.tokenizers[name]!;
  return tokenizerFromJson(json, { ...own, ...config });
}
const tokens = (tokenizer: Tokenizer, ids: number[]) => ids.map((id) => tokenizer.tokenOf(id));

describe.each(Object.keys(fixture.tokenizers))('%s: ids of the Rust tokenizers (T-5)', (name) => {
  const tokenizer = load(name);
  const rows = fixture.tokenizers[name]!.rows;
  test.each(fixture.texts.map((text, i) => ({ text, row: rows[i]! })))('$text', ({ text, row }) => {
    expect(tokenizer.encode(text, { addBos: false })).toEqual(row.ids);
    expect(tokenizer.encode(text, { addBos: false, specialTokens: 'as-text' })).toEqual(row.text_ids ?? row.ids);
    expect(tokenizer.decode(row.ids)).toBe(row.decoded ?? text);
  });
});

test('byte-level and byte-fallback ids decode to the text they came from, whatever it is', () => {
  for (const name of ['digits_bytelevel', 'llama3', 'sentencepiece']) {
    const tokenizer = load(name);
    const anything = fc.string({ unit: 'binary', maxLength: 40 });
    fc.assert(
      fc.property(anything, (text) => {
        const ids = tokenizer.encode(text, { addBos: false, specialTokens: 'as-text' });
        expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < tokenizer.vocabSize)).toBe(true);
        expect(tokenizer.decode(ids)).toBe(text);
      }),
      { numRuns: 300 },
    );
  }
});

describe('unknown tokens (T-5)', () => {
  test('become the unknown token, once for a run of them', () => {
    const tokenizer = load('metaspace');
    expect(tokens(tokenizer, tokenizer.encode('the 🙂🙂 the'))).toEqual(['▁the', '▁', '<unk>', '▁the']);
  });

  test('without an unknown token in the vocabulary are an error, never an undefined id', () => {
    const json = { model: { type: 'BPE', vocab: { a: 0, b: 1 }, merges: [], unk_token: '<unk>' } };
    const tokenizer = tokenizerFromJson(json);
    expect(tokenizer.encode('ab')).toEqual([0, 1]);
    expect(() => tokenizer.encode('ac')).toThrow('the tokenizer has no id for "<unk>"');
  });

  test('ids outside the vocabulary cannot be decoded', () => {
    const tokenizer = load('llama3');
    expect(() => tokenizer.decode([5, tokenizer.vocabSize])).toThrow(`token id ${tokenizer.vocabSize} is not one of`);
    expect(tokenizer.decode([])).toBe('');
    expect(tokenizer.idOf('no such token')).toBeUndefined();
  });
});

test('special tokens that only the normaliser makes are not special (T-4)', () => {
  const tokenizer = load('nfkc');
  const s = tokenizer.idOf('<s>');
  expect(tokenizer.encode('<s>')).toEqual([s]);
  const fullWidth = tokenizer.encode('＜s＞'); // NFKC makes it <s>
  expect(fullWidth).not.toContain(s);
  expect(tokens(tokenizer, fullWidth)).toEqual(['<', 's', '>']);
});

test('template markers are single special ids, and plain text when asked for (T-8)', () => {
  const tokenizer = load('digits_bytelevel');
  const ids = tokenizer.encode('<|im_start|>user\nhi<|im_end|>');
  expect(ids[0]).toBe(tokenizer.idOf('<|im_start|>'));
  expect(ids.at(-1)).toBe(tokenizer.idOf('<|im_end|>'));
  expect(tokenizer.decode(ids, { skipSpecial: true })).toBe('user\nhi');

  const text = tokenizer.encode('<|im_start|>', { specialTokens: 'as-text' });
  expect(text.length).toBeGreaterThan(1);
  expect(text).not.toContain(tokenizer.idOf('<|im_start|>'));
  expect(tokenizer.decode(text)).toBe('<|im_start|>');
});

describe('exactly one BOS where the model wants one (E-10, E-11)', () => {
  const bosOf = (tokenizer: Tokenizer, text: string) =>
    tokenizer.encode(text).filter((id) => id === tokenizer.bosId).length;

  test('raw text, a rendered template that starts with BOS, and the empty text', () => {
    for (const name of ['llama3', 'sentencepiece']) {
      const tokenizer = load(name);
      expect(tokenizer.addBos).toBe(true);
      expect(tokenizer.tokenOf(tokenizer.bosId!)).toBe(tokenizer.bosToken);
      for (const text of ['The answer', `${tokenizer.bosToken}The answer`, '']) {
        expect(tokenizer.encode(text)[0]).toBe(tokenizer.bosId);
        expect(bosOf(tokenizer, text)).toBe(1);
      }
    }
  });

  test('none where the model wants none, or when told so', () => {
    const tokenizer = load('digits_bytelevel');
    expect(tokenizer.addBos).toBe(false);
    expect(bosOf(tokenizer, 'The answer')).toBe(0);
    expect(bosOf(tokenizer, '<|im_start|>user')).toBe(1); // the template's own
    expect(tokenizer.encode('a', { addBos: true })).toEqual([tokenizer.bosId, ...tokenizer.encode('a')]);
    expect(load('llama3').encode('a', { addBos: false })).not.toContain(load('llama3').bosId);
  });

  test('the text of a BOS is text when special tokens are', () => {
    const tokenizer = load('sentencepiece');
    const ids = tokenizer.encode('<s>', { specialTokens: 'as-text' });
    expect(ids[0]).toBe(tokenizer.bosId);
    expect(tokenizer.decode(ids.slice(1))).toBe('<s>');
  });

  test('the configuration has the last word over the post-processor', () => {
    expect(load('llama3', { add_bos_token: false }).addBos).toBe(false);
    expect(load('digits_bytelevel', { add_bos_token: true }).encode('a')[0]).toBe(load('digits_bytelevel').bosId);
  });

  test('a BOS that is wanted but not there is an error', () => {
    const { json } = fixture.tokenizers['digits_bytelevel']!;
    expect(() => tokenizerFromJson(json, { add_bos_token: true })).toThrow('names no BOS token');
    expect(() => tokenizerFromJson(json).encode('a', { addBos: true })).toThrow('has no BOS token');
    expect(() => tokenizerFromJson(json, { bos_token: '<none>' })).toThrow('BOS token <none> is not in its vocabulary');
  });
});

test('padding falls back on EOS, then on 0', () => {
  const { json } = fixture.tokenizers['llama3']!;
  expect(tokenizerFromJson(json, { eos_token: '<|eot_id|>' }).padId).toBe(311);
  expect(tokenizerFromJson(json).padId).toBe(0);
});
