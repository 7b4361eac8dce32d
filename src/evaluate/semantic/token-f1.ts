import { normaliseAnswer } from './normalise';

/** Scripts that are written without spaces, in which each character counts as a word, as in multilingual QA. */
const UNSPACED =
  /([\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}])/u;

/**
 * The threshold with the highest F1 on `datasets/semantic-pairs`, where 2/3 (a surname and a full name of two words) is
 * enough and 1/2 (one word of two names, or another unit after a number) is not.
 */
export const DEFAULT_F1 = 0.65;

/** The tokens of a normalised answer: its words. */
export function tokensOf(normalised: string): string[] {
  if (!UNSPACED.test(normalised)) return normalised.split(' ').filter(Boolean);
  return normalised.split(' ').flatMap((word) => word.split(UNSPACED).filter(Boolean));
}

/**
 * Token F1 of SQuAD (Rajpurkar et al. 2016) between two texts, normalised by `normaliseAnswer`: twice the tokens they share,
 * each as often as both have it, over the tokens of both.
 * @returns 0 to 1; 1 for two texts without tokens
 */
export function tokenF1Score(a: string, b: string): number {
  return f1OfTokens(tokensOf(normaliseAnswer(a)), tokensOf(normaliseAnswer(b)));
}

/** As `tokenF1Score`, of tokens that are at hand. */
export function f1OfTokens(a: readonly string[], b: readonly string[]): number {
  if (a.length + b.length === 0) return 1;
  const counts = new Map<string, number>();
  for (const token of a) counts.set(token, (counts.get(token) ?? 0) + 1);
  let shared = 0;
  for (const token of b) {
    const left = counts.get(token) ?? 0;
    if (left > 0) shared++;
    counts.set(token, left - 1);
  }
  return (2 * shared) / (a.length + b.length);
}
