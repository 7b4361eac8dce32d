import { withoutFiller } from './filler';
import { foldText } from './fold';

/** What stands in for an answer without being one: white space, dashes, dots, quotes. Not "?" or "*", which may be one. */
const PLACEHOLDER = /^[\s\p{C}\p{Pd}\p{Pc}\p{Pi}\p{Pf}.…·•"'`]*$/u;

/** Whether an answer has nothing in it. */
export const isEmptyAnswer = (text: string): boolean => PLACEHOLDER.test(text);

const OPENING =
  /^(?:(?:(?:i am|im|we are) )?(?:so |very |really |truly )?sorry(?: but| however)?|unfortunately|(?:my )?apologies(?: but)?|i (?:apologise|apologize)(?: but)?|honestly|hm+|um+|well|as an? (?:large )?(?:ai|artificial intelligence|language model)(?: language)?(?: model| assistant)?|to be honest) /;

const KNOW = '(?:know|knew|recall|remember|understand)';
const TELL =
  '(?:answer|determine|provide|find|say|tell|give|help|assist|identify|recall|remember|confirm|verify|be (?:certain|sure)|be (?:answered|determined|found|known|identified|verified))';

/** Whole answers. "None" and "nobody" are answers, and so is "NA", sodium; "N/A" is not. */
const WHOLE = new RegExp(
  `^(?:${[
    'unknown|unsure|uncertain|unclear|unspecified|undetermined|unanswerable|undisclosed|unidentified|unavailable',
    'idk|dunno|no (?:idea|clue|answer|comment|information|data|response)',
    '(?:no|not enough|insufficient) (?:information|data|context|evidence)(?: (?:is )?(?:available|given|provided|known))?',
    '(?:information|data|answer|name)? ?(?:is )?not (?:applicable|available|specified|provided|stated|given|known|sure|certain|found|answerable|disclosed|mentioned)',
  ].join('|')})$`,
);

/** How sentences begin that decline to answer; what follows is the question's. */
const BEGINNING = new RegExp(
  `^(?:${[
    `i (?:(?:really|honestly|just|simply|still|truly|currently|actually) )?(?:dont|do not|didnt|did not)(?: (?:really|actually|currently|even))? ${KNOW}`,
    `i (?:(?:currently|simply) )?(?:dont|do not)(?: (?:currently|actually|really))? have (?:a |an |any |enough |the |access |that |this |specific |sufficient |information|knowledge|data|details|context)`,
    `(?:i am|im) (?:not (?:(?:entirely|really|quite|completely|too|very|100|absolutely|totally|so) )?(?:percent )?(?:sure|certain|aware|familiar|able to)|unsure|uncertain|unable to|unaware|unfamiliar)`,
    `(?:i )?(?:cannot|cant|can not|couldnt|could not|unable to) ${TELL}`,
    `i have no (?:idea|clue|information|knowledge|data|record)`,
    `(?:dont|do not) ${KNOW}|not (?:entirely |really |quite )?sure`,
    `(?:there is|theres|there are|i have) (?:no|not enough|insufficient) (?:information|data|context|evidence|known|records?|details)`,
    `(?:it is |its )?(?:(?:currently|still|generally) )?(?:not (?:(?:publicly|well|exactly|yet|precisely|widely) )?known|unknown|unclear|uncertain|not clear|not possible|impossible)(?: (?:to|at|as|by|for|because|since|if|whether|who|what|when|where|which|how|exactly|from|in)\\b|$)`,
    `(?:no one|nobody) (?:(?:really|actually) )?knows`,
    `(?:the|this|that|your) question (?:is (?:unclear|ambiguous|not clear|incomplete|unanswerable)|(?:cannot|cant|can not|could not) be|does not|doesnt)`,
    `more (?:information|context|details) (?:is|are) (?:needed|required)|(?:please )?(?:could you |can you )?(?:please )?provide more (?:information|context|details)`,
  ].join('|')})`,
);

/** What may bring an answer after all: "I'm not sure, but I think it was Paris". */
const GUESS =
  /\b(?:but|however|although|though|maybe|perhaps|possibly|probably|my (?:best )?guess(?: is| would be)?|i (?:think|believe|guess|would (?:say|guess))|(?:it|that|he|she|they) (?:may|might|could|must) (?:have been|be))\b(.*)$/;
/** What follows "but" without being an answer. */
const OFFER =
  /^ ?(?:$|(?:i|we) (?:can|could|will|would be|would need|am|do|dont|cant|cannot|know|hope|suggest|recommend)\b|you (?:can|could|may|might)\b|please\b|if you\b|let me\b|feel free\b|it (?:is not|isnt)\b|there (?:is|are) no\b)/;

/**
 * Whether an answer declines to answer, in English: "I don't know", "Unknown.", "N/A", "I'm sorry, but I cannot determine
 * …", or is empty (see `isEmptyAnswer`). A guess makes it an answer ("I'm not sure, maybe Paris"), and so do other words
 * ("Unknown Pleasures"). The film "Unknown" is taken for a refusal: words alone do not tell.
 */
export function isRefusal(text: string): boolean {
  if (isEmptyAnswer(text)) return true;
  const folded = foldText(text);
  const answer = withoutFiller(folded);
  return /^n ?\/ ?a\.?$/.test(answer) || declines(wordsOf(answer)) || declines(wordsOf(folded));
}

const wordsOf = (folded: string): string =>
  folded
    .replace(/'/g, '')
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, ' ')
    .trim();

function declines(words: string): boolean {
  let left = words;
  while (OPENING.test(left)) left = left.replace(OPENING, '');
  if (WHOLE.test(left) || /^(?:(?:i am|im) )?(?:very |so )?sorry$/.test(left)) return true;
  const beginning = BEGINNING.exec(left);
  if (!beginning) return false;
  const guess = GUESS.exec(left.slice(beginning[0].length));
  return !guess || OFFER.test(guess[1]!.replace(/^ ?(?:that|to be honest)\b/, '')) || declines(guess[1]!.trim());
}
