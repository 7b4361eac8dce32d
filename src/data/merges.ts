import { CalmError } from '../base/errors';

/**
 * The merges of a byte-pair encoding as pairs, from either spelling: `["a", "b"]` or `"a b"`.
 * A string with several spaces is split where both parts and their union are tokens.
 * @throws CalmError that names the first entry that is malformed, ambiguous or not made of tokens.
 */
export function readMerges(merges: unknown, vocabulary: { has(token: string): boolean }): [string, string][] {
  if (!Array.isArray(merges)) throw new CalmError('the tokenizer has no list of merges');
  const known = ([left, right]: readonly [string, string]) =>
    vocabulary.has(left) && vocabulary.has(right) && vocabulary.has(left + right);
  const refuse = (index: number, why: string) =>
    new CalmError(`merge ${index} of the tokenizer, ${JSON.stringify(merges[index])}, ${why}`, {
      remedy: 'expected two tokens whose union is a token, as ["a","b"] or "a b"',
    });

  return merges.map((merge: unknown, index) => {
    if (typeof merge === 'string') {
      const pairs = splits(merge);
      const fitting = pairs.filter(known);
      if (fitting.length > 1) throw refuse(index, `can be split in ${fitting.length} ways`);
      if (fitting[0] === undefined) {
        throw refuse(index, pairs.length === 0 ? 'is not two tokens' : 'is not made of tokens of the vocabulary');
      }
      return fitting[0];
    }
    if (!isPair(merge)) throw refuse(index, 'is not two tokens');
    if (!known(merge)) throw refuse(index, 'is not made of tokens of the vocabulary');
    return merge;
  });
}

function isPair(value: unknown): value is [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string' && part !== '');
}

/** Every way to split at a space into two parts that are not empty. */
function splits(text: string): [string, string][] {
  const pairs: [string, string][] = [];
  for (let at = text.indexOf(' ', 1); at > 0 && at < text.length - 1; at = text.indexOf(' ', at + 1)) {
    pairs.push([text.slice(0, at), text.slice(at + 1)]);
  }
  return pairs;
}
