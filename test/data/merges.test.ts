import { describe, expect, test } from 'vitest';
import { tokenizerFromJson } from '../../src/data';
import { readMerges } from '../../src/data/merges';

const vocabulary = new Set(['a', 'b', 'c', 'ab', 'abc', 'a b', ' ', 'a bc', 'b c', 'a b c']);

describe('merges', () => {
  test('both spellings give the same ids (T-1)', () => {
    const ids = (merges: unknown) => {
      const vocab = { a: 0, b: 1, c: 2, ab: 3, abc: 4 };
      return tokenizerFromJson({ model: { type: 'BPE', vocab, merges } }).encode('abcabb');
    };
    expect(ids(['a b', 'ab c'])).toEqual([4, 3, 1]);
    expect(
      ids([
        ['a', 'b'],
        ['ab', 'c'],
      ]),
    ).toEqual([4, 3, 1]);
    expect(ids(['a b', ['ab', 'c']])).toEqual([4, 3, 1]);
  });

  test.each([
    [['a b', 'ab'], 'merge 1 of the tokenizer, "ab", is not two tokens'],
    [[' a'], 'merge 0 of the tokenizer, " a", is not two tokens'],
    [['a '], 'is not two tokens'],
    [[''], 'is not two tokens'],
    [['a x'], 'is not made of tokens of the vocabulary'],
    [['b a'], 'is not made of tokens of the vocabulary'], // "ba" is no token
    [[['a', 'b', 'c']], 'is not two tokens'],
    [[['a']], 'is not two tokens'],
    [[['a', '']], 'is not two tokens'],
    [[['a', 'x']], 'is not made of tokens of the vocabulary'],
    [[7], 'is not two tokens'],
    [[null], 'is not two tokens'],
    ['a b', 'has no list of merges'],
    [undefined, 'has no list of merges'],
  ])('a malformed entry is an error, not a skip: %j', (merges, message) => {
    expect(() => readMerges(merges, vocabulary)).toThrow(message);
  });

  test('tokens with spaces: pairs load, strings are split where it makes tokens or refused (T-2)', () => {
    expect(readMerges([['a b', 'c']], new Set(['a b', 'c', 'a bc']))).toEqual([['a b', 'c']]);
    expect(readMerges(['a b c'], new Set(['a b', 'c', 'a bc']))).toEqual([['a b', 'c']]);
    expect(readMerges(['a b c'], new Set(['a', 'b c', 'ab c']))).toEqual([['a', 'b c']]);
    expect(() => readMerges(['a b c'], new Set(['a b', 'c', 'a bc', 'a', 'b c', 'ab c']))).toThrow(
      'merge 0 of the tokenizer, "a b c", can be split in 2 ways',
    );
    expect(() => readMerges(['a b c'], new Set(['a', 'b', 'c']))).toThrow('is not made of tokens');
  });
});
