import { isMonth, readDates } from './dates';
import { withoutFiller } from './filler';
import { foldText } from './fold';
import { readNames } from './names';
import { readNumbers } from './numbers';
import { readSymbols } from './symbols';
import { readUnits } from './units';

/** The first line of what a model generated, without white space around it. Sentences are not cut: "St. Louis" is one. */
export function shortAnswer(text: string): string {
  return text
    .trim()
    .split(/[\n\r\v\f\u0085\u2028\u2029]/, 1)[0]!
    .trim();
}

const ARTICLES = new Set(['the', 'a', 'an']);
/** Words that say nothing before a number or a date, and may be part of an answer elsewhere ("On the Road"). */
const BEFORE_NUMBERS = new Set('in on at from the year about approximately approx around roughly circa ca'.split(' '));

/** Without articles at the start. Those inside stay ("Vitamin A", "Alexander the Great"), unlike in SQuAD's script. */
function withoutStart(tokens: readonly string[]): readonly string[] {
  const number = tokens.findIndex((token) => !BEFORE_NUMBERS.has(token));
  const before = tokens[number];
  let from = before !== undefined && (/^-?\d/.test(before) || isMonth(before)) ? number : 0;
  while (ARTICLES.has(tokens[from] ?? '') && from < tokens.length - 1 && !isLetter(tokens, from)) from++;
  return tokens.slice(from);
}

/** Whether an "a" is a letter: the answer is a key or a blood type. */
const isLetter = (tokens: readonly string[], at: number): boolean =>
  tokens[at] === 'a' &&
  at + 2 === tokens.length &&
  /^(?:major|minor|flat|sharp|natural|positive|negative)$/.test(tokens[at + 1] ?? '');

function pass(text: string): string {
  const folded = foldText(text);
  const tokens = readUnits(readDates(readNames(readNumbers(readSymbols(withoutFiller(folded))))));
  // What has no word, such as "?", is compared as it is.
  return withoutStart(tokens).join(' ') || folded;
}

/** More than any text needs. */
const PASSES = 10;

/**
 * A short answer in the form in which answers are compared, words with a space between them:
 *
 * - case, accents, ligatures, width, quotes, dashes and digits of other scripts (`foldText`)
 * - what introduces an answer ("The answer is", "It was", `withoutFiller`), articles at the start, and after a comma at the
 *   end; "in", "about" and the like before a number
 * - punctuation and the symbols for money, percent and degrees (`readSymbols`)
 * - number words, digit grouping, Roman numerals after a name (`readNumbers`, `readNames`)
 * - dates and units in one order and spelling (`readDates`, `readUnits`); values are not converted
 *
 * A text with a letter or digit of any script never becomes empty, and normalising twice changes nothing. Meant for English
 * answers; words of other languages are only folded. Not known: synonyms, acronyms, British and American spelling,
 * decimal commas, the order of lists.
 */
export function normaliseAnswer(text: string): string {
  let now = text;
  // One reading may make room for another ("the answer is: a dozen" …), so until nothing changes.
  for (let i = 0; i < PASSES; i++) {
    const next = pass(now);
    if (next === now) break;
    now = next;
  }
  return now;
}
