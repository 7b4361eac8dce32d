import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tokenizerFromFolder, tokenizerFromJson } from '../../src/data';

const JSON_FILE = {
  added_tokens: [
    { id: 3, content: '<s>', special: true },
    { id: 4, content: '</s>', special: true },
  ],
  model: { vocab: { a: 0, b: 1, ab: 2 }, merges: ['a b'] }, // older files name no type
};

describe('tokenizerFromFolder', () => {
  let folder: string;
  const write = (name: string, content: unknown) =>
    fs.writeFileSync(path.join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  beforeAll(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-tokenizer-'));
    write('tokenizer.json', JSON_FILE);
  });
  afterAll(() => fs.rmSync(folder, { recursive: true }));

  test('tokenizer.json is enough', () => {
    const tokenizer = tokenizerFromFolder(folder);
    expect(tokenizer.encode('abb<s>')).toEqual([2, 1, 3]);
    expect([tokenizer.vocabSize, tokenizer.bosId, tokenizer.eosId, tokenizer.chatTemplate]).toEqual([
      5,
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('the files beside it name special tokens and the chat template', () => {
    write('special_tokens_map.json', { bos_token: '</s>', eos_token: { content: '</s>', lstrip: false } });
    write('tokenizer_config.json', { bos_token: '<s>', add_bos_token: true, chat_template: 'from the config' });
    const tokenizer = tokenizerFromFolder(folder);
    expect([tokenizer.bosId, tokenizer.eosId, tokenizer.padId]).toEqual([3, 4, 4]);
    expect(tokenizer.encode('ab')).toEqual([3, 2]);
    expect(tokenizer.chatTemplate).toBe('from the config');

    write('chat_template.jinja', 'from its own file');
    expect(tokenizerFromFolder(folder).chatTemplate).toBe('from its own file');
  });

  test('a missing folder, a broken file', () => {
    expect(() => tokenizerFromFolder(path.join(folder, 'none'))).toThrow(/cannot read .*none.tokenizer\.json/);
    const broken = path.join(folder, 'broken');
    fs.mkdirSync(broken);
    fs.writeFileSync(path.join(broken, 'tokenizer.json'), '{"model": ');
    expect(() => tokenizerFromFolder(broken)).toThrow(/broken.tokenizer\.json is not JSON/);
  });
});

describe('tokenizerFromJson', () => {
  test('of several chat templates the default one', () => {
    const chat_template = [
      { name: 'tool_use', template: 'tools' },
      { name: 'default', template: 'plain' },
    ];
    expect(tokenizerFromJson(JSON_FILE, { chat_template }).chatTemplate).toBe('plain');
  });

  test.each([
    ['x', 'the content: Invalid input: expected object'],
    [{}, 'model: Invalid input: expected object'],
    [{ model: { vocab: { a: 'x' }, merges: [] } }, 'model.vocab'],
    [{ model: { vocab: { a: -1 }, merges: [] } }, 'model.vocab'],
    [{ model: { vocab: { a: 2 ** 40 }, merges: [] } }, 'model.vocab'],
    [{ ...JSON_FILE, added_tokens: [{ content: 'x' }] }, 'added_tokens.0.id'],
    [{ ...JSON_FILE, pre_tokenizer: { type: 'Sequence' } }, 'pre_tokenizer: a Sequence without pretokenizers'],
    [{ ...JSON_FILE, normalizer: { type: 'None such' } }, 'Unknown Normalizer type: None such'],
    [{ model: { ...JSON_FILE.model, continuing_subword_prefix: '##' } }, 'continuing_subword_prefix'],
  ])('one line says what is wrong: %j', (json, message) => {
    expect(() => tokenizerFromJson(json)).toThrow(message);
    expect(() => tokenizerFromJson(json)).toThrow(/^tokenizer\.json: [^\n]+$/);
  });

  test('a post-processor that says nothing puts no BOS', () => {
    for (const type of ['Sequence', 'TemplateProcessing', 'BertProcessing']) {
      expect(tokenizerFromJson({ ...JSON_FILE, post_processor: { type } }).addBos).toBe(false);
    }
  });

  test('the order of an object in the vocabulary, and names that objects have anyway, do not matter', () => {
    const vocab = JSON.parse('{"__proto__": 1, "constructor": 0, "a": 3, "7": 2}') as object;
    const tokenizer = tokenizerFromJson({ model: { type: 'BPE', vocab, merges: [] } });
    expect(tokenizer.tokenOf(1)).toBe('__proto__');
    expect(tokenizer.encode('a7')).toEqual([3, 2]);
    expect(tokenizer.idOf('toString')).toBeUndefined();
  });
});
