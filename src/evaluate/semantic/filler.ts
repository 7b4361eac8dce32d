/**
 * What models put before an answer: "The answer is", "Answer:", "A:", "It is", "It was", "That would be", "There are",
 * "I think". Not "this is", "he was", "yes" or "in": they are as often part of the answer (This Is Spinal Tap, In Bruges).
 */
const FILLER = new RegExp(
  `^(?:${[
    `(?:(?:the|my) )?(?:(?:correct|right|final|short|best|most likely) )?(?:answer|response)(?: to (?:the|this|that|your) question)?(?: (?:is|was|would be|should be)(?: that)?\\b ?:?|\\s?:)`,
    `(?:a|ans)\\s?:(?! ?\\d)`,
    `(?:it|that)(?:'s| is| was| would be| must be)\\b ?:?`,
    `there (?:is|are|was|were)\\b`,
    `i (?:think|believe|guess|suppose|would say)(?:,? that)?\\b(?!,? therefore)`,
    `(?:sure|certainly|of course|well|okay|ok)(?:,|!)`,
  ].join('|')})\\s*(?=[\\p{L}\\p{N}\\p{S}"'*(\\-])`,
  'u',
);

/** An article after a comma at the end, as catalogues write titles: "Beatles, The". */
const LAST_ARTICLE = /,\s?(?:the|an?)$/;

/** A folded text without what introduces its answer; a text that is nothing else is left as it is. */
export function withoutFiller(folded: string): string {
  let left = folded;
  for (;;) {
    const next = left.replace(FILLER, '').replace(LAST_ARTICLE, '');
    if (next === left || !/[\p{L}\p{N}\p{S}]/u.test(next)) return left;
    left = next;
  }
}
