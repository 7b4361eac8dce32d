import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, test } from 'vitest';
import { renderChat, tokenizerFromGguf, type ChatMessage, type Tokenizer } from '../../src/data';
import { openGguf } from '../../src/model/gguf';

const read = (name: string): unknown =>
  JSON.parse(fs.readFileSync(path.join(__dirname, '../fixtures/data', name), 'utf8'));
const tokens = (tokenizer: Tokenizer, ids: number[]) => ids.map((id) => tokenizer.tokenOf(id));

const MODEL = path.join(__dirname, '../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf');
const smol = read('smollm2-tokenizer.json') as {
  tokenizer: { id: string; text: string; ids: number[]; ids_special_as_text?: number[] }[];
  chat: { id: string; messages: ChatMessage[]; add_generation_prompt: boolean; text: string; ids: number[] }[];
};

describe.skipIf(!fs.existsSync(MODEL))('SmolLM2 out of its GGUF file (skipped without .cache/models)', () => {
  const metadata = fs.existsSync(MODEL) ? openGguf(MODEL).metadata : {};
  const tokenizer = fs.existsSync(MODEL) ? tokenizerFromGguf(metadata, MODEL) : (undefined as never);

  test('special ids and policy', () => {
    expect([tokenizer.vocabSize, tokenizer.bosId, tokenizer.eosId, tokenizer.padId]).toEqual([49152, 1, 2, 2]);
    expect(tokenizer.addBos).toBe(false);
    expect(tokenizer.idOf('Ġthe')).toBe(260);
  });

  test.each(smol.tokenizer)('$id: $text', ({ text, ids, ids_special_as_text }) => {
    expect(tokenizer.encode(text)).toEqual(ids);
    expect(tokenizer.encode(text, { specialTokens: 'as-text' })).toEqual(ids_special_as_text ?? ids);
    expect(tokenizer.decode(ids)).toBe(text);
  });

  test.each(smol.chat)('$id', ({ messages, add_generation_prompt, text, ids }) => {
    const { chatTemplate, bosToken, eosToken } = tokenizer;
    const rendered = renderChat(chatTemplate!, messages, {
      addGenerationPrompt: add_generation_prompt,
      bosToken,
      eosToken,
    });
    expect(rendered).toBe(text);
    expect(tokenizer.encode(rendered)).toEqual(ids);
  });

  test('a byte that is no token becomes the unknown token', () => {
    expect(tokenizer.idOf('Ą')).toBeUndefined(); // byte 4
    expect(tokenizer.encode('a\u0004')).toEqual([...tokenizer.encode('a'), 0]);
  });

  test('is built within a second and encodes 10,000 short strings within two', () => {
    const start = performance.now();
    const fresh = tokenizerFromGguf(metadata);
    const built = performance.now();
    const words = ['The capital of', 'Which of these', 'an unlikely event', 'photosynthesis', '3,141 km', 'naïve'];
    for (let i = 0; i < 10_000; i++) fresh.encode(`${words[i % 6]} ${i} ${words[(i * 7 + 3) % 6]}?`);
    expect(built - start).toBeLessThan(1000);
    expect(performance.now() - built).toBeLessThan(2000);
  });
});

describe('pre-tokenisers by name', () => {
  const {
    tokens: vocabulary,
    merges,
    texts,
    ids,
  } = read('gguf-pre-tokenizers.json') as {
    tokens: string[];
    merges: string[];
    texts: string[];
    ids: Record<string, number[][]>;
  };
  const metadata = (pre?: string) => ({
    'tokenizer.ggml.model': 'gpt2',
    ...(pre !== undefined && { 'tokenizer.ggml.pre': pre }),
    'tokenizer.ggml.tokens': vocabulary,
    'tokenizer.ggml.merges': merges,
    'tokenizer.ggml.token_type': Int32Array.from(vocabulary, (t) => (['<s>', '</s>'].includes(t) ? 3 : 1)),
    'tokenizer.ggml.bos_token_id': 0,
  });

  test.each(Object.keys(ids))('%s: ids of the Rust tokenizers', (pre) => {
    const tokenizer = tokenizerFromGguf(metadata(pre));
    texts.forEach((text, i) => expect(tokenizer.encode(text, { addBos: false }), text).toEqual(ids[pre]![i]));
  });

  test('no name means the default; BOS by default with llama-bpe only', () => {
    texts.forEach((text, i) => expect(tokenizerFromGguf(metadata()).encode(text)).toEqual(ids['default']![i]));
    expect(tokenizerFromGguf(metadata('llama-bpe')).encode('a')[0]).toBe(0);
    const explicit = { ...metadata('llama-bpe'), 'tokenizer.ggml.add_bos_token': false };
    expect(tokenizerFromGguf(explicit).encode('a')).not.toContain(0);
  });

  test.each(['smolm', 'constructor'])('an unknown name is refused: %s', (pre) => {
    const line = `x.gguf: a tokenizer with the pre-tokeniser "${pre}" is not supported; there are: default, gpt-2, `;
    expect(() => tokenizerFromGguf(metadata(pre), 'x.gguf')).toThrow(
      expect.objectContaining({ line: expect.stringContaining(line) as string }) as Error,
    );
  });

  test.each([
    [{ 'tokenizer.ggml.model': undefined }, 'there is no tokenizer in it (tokenizer.ggml.model is missing)'],
    [{ 'tokenizer.ggml.model': 't5' }, 'a tokenizer of the type "t5" is not supported'],
    [{ 'tokenizer.ggml.tokens': undefined }, 'tokenizer.ggml.tokens is missing or no list'],
    [{ 'tokenizer.ggml.tokens': 'a b' }, 'tokenizer.ggml.tokens is missing or no list'],
    [{ 'tokenizer.ggml.tokens': [...vocabulary.slice(1), '!'] }, 'the token "!" more than once'],
    [{ 'tokenizer.ggml.merges': undefined }, 'tokenizer.ggml.merges is missing or no list'],
    [{ 'tokenizer.ggml.merges': ['a b c'] }, 'merge 0 of the tokenizer, "a b c"'],
    [{ 'tokenizer.ggml.token_type': [1, 1] }, `there are 2 token types for ${vocabulary.length} tokens`],
    [{ 'tokenizer.ggml.bos_token_id': 9999 }, 'tokenizer.ggml.bos_token_id (9999) is no token'],
  ])('broken metadata is refused in one line: %j', (change, message) => {
    expect(() => tokenizerFromGguf({ ...metadata('gpt-2'), ...change })).toThrow(message);
  });
});

describe('SentencePiece BPE', () => {
  const { metadata, rows } = read('sentencepiece-gguf.json') as {
    metadata: Record<string, unknown>;
    rows: [string, number[]][];
  };
  const tokenizer = tokenizerFromGguf(metadata);
  const plain = (text: string) => tokenizer.encode(text, { addBos: false, specialTokens: 'as-text' });

  // With a user-defined token in the text, llama.cpp puts a space after it and sentencepiece does not.
  test.each(rows.filter(([text]) => !text.includes('<tool>')))('%s: ids of sentencepiece', (text, ids) => {
    expect(plain(text)).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(text);
  });

  test('the dummy prefix: a word at the start is the word after a space (T-7)', () => {
    const The = tokenizer.idOf('▁The');
    expect(The).toBeDefined();
    expect(plain('The')).toEqual([The]);
    expect(plain('a The').at(-1)).toBe(The);
    expect(plain(' The')).toEqual([tokenizer.idOf('▁'), The]);
    for (const text of ['The', ' The', 'a The', '  The  ']) expect(tokenizer.decode(plain(text))).toBe(text);
  });

  test('BOS once; the text after a special token starts as a text does', () => {
    expect(tokens(tokenizer, tokenizer.encode('The'))).toEqual(['<s>', '▁The']);
    expect(tokens(tokenizer, tokenizer.encode('<s>The'))).toEqual(['<s>', '▁The']);
    expect(tokens(tokenizer, plain('<tool>The'))).toEqual(['<tool>', '▁The']);
  });

  test('without the prefix where the file says so', () => {
    const bare = tokenizerFromGguf({ ...metadata, 'tokenizer.ggml.add_space_prefix': false });
    expect(tokens(bare, bare.encode('he the', { addBos: false }))).toEqual(['he', '▁the']);
    expect(bare.decode(bare.encode(' he', { addBos: false }))).toBe(' he');
  });

  test('of equal scores the leftmost pair is merged first', () => {
    const toy = {
      'tokenizer.ggml.model': 'llama',
      'tokenizer.ggml.tokens': ['<unk>', 'a', 'b', 'ab', 'ba', 'aba'],
      'tokenizer.ggml.scores': [0, -9, -9, -1, -1, -2],
      'tokenizer.ggml.token_type': [2, 1, 1, 1, 1, 1],
      'tokenizer.ggml.add_space_prefix': false,
      'tokenizer.ggml.add_bos_token': false,
    };
    const encode = (text: string) => tokens(tokenizerFromGguf(toy), tokenizerFromGguf(toy).encode(text));
    expect(encode('bab')).toEqual(['ba', 'b']);
    expect(encode('abab')).toEqual(['ab', 'ab']);
    expect(encode('aba')).toEqual(['aba']);
    expect(encode('axb')).toEqual(['a', '<unk>', 'b']);
    expect(() => tokenizerFromGguf({ ...toy, 'tokenizer.ggml.scores': [1] })).toThrow('1 scores for 6 tokens');
  });
});
