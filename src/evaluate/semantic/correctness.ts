import { pick } from '../../base/pick';
import { UsageError } from '../../base/errors';
import { normaliseAnswer } from './normalise';
import { isRefusal } from './refusal';
import { DEFAULT_F1, f1OfTokens, tokensOf } from './token-f1';

/** By which rule an answer is right, given the texts that are. */
export type CorrectnessRule = 'exact' | 'contains' | 'f1';

export interface CorrectnessOptions {
  /** Of rule `f1`: the least token F1, above 0 and at most 1; 0.65 where not given, as for `tokenF1`. */
  threshold?: number;
}

type Rule = (answer: readonly string[], alias: readonly string[], threshold: number) => boolean;

const RULES: Readonly<Record<CorrectnessRule, Rule>> = {
  exact: () => false,
  contains: (answer, alias) => answer.some((_, at) => startsAt(answer, alias, at) && !isDenied(answer, at)),
  f1: (answer, alias, threshold) => f1OfTokens(answer, alias) >= threshold,
};

/**
 * Whether an answer is right. Under every rule it is when it equals one of `aliases` after `normaliseAnswer`; beyond that
 *
 * - `exact`: in no other case. The exact match of TriviaQA and NQ-open.
 * - `contains` (the default): when it has the words of an alias side by side, as PopQA is scored (Mallen et al. 2023), but
 *   in whole words ("Rome" is not in "Jerome") and not denied ("not Paris"). The default because models answer in sentences
 *   ("It was painted by Monet in 1872"), which exact match counts as wrong. An answer that is only a part of an alias is
 *   wrong: lists of aliases have the short forms that are right, and "City" is not New York City.
 * - `f1`: when its token F1 with an alias reaches the threshold.
 *
 * A refusal that repeats the question's words is wrong.
 * @param answer one answer, see `shortAnswer`
 * @throws UsageError for an unknown rule, no aliases, or a threshold outside (0, 1]
 */
export function isCorrect(
  answer: string,
  aliases: readonly string[],
  rule: CorrectnessRule = 'contains',
  { threshold = DEFAULT_F1 }: CorrectnessOptions = {},
): boolean {
  const accepts = pick('rule', rule, RULES);
  checkThreshold(threshold);
  const right = aliases.map(normaliseAnswer).filter((alias) => alias !== '');
  if (right.length === 0) throw new UsageError('there is no alias that an answer could equal');
  const mine = normaliseAnswer(answer);
  if (right.includes(mine)) return true;
  if (isRefusal(answer)) return false;
  const tokens = tokensOf(mine);
  return right.some((alias) => accepts(tokens, tokensOf(alias), threshold));
}

/** @throws UsageError for a threshold outside (0, 1] */
export function checkThreshold(threshold: number): void {
  if (!(threshold > 0 && threshold <= 1)) throw new UsageError(`the threshold ${threshold} is not in (0, 1]`);
}

const startsAt = (answer: readonly string[], alias: readonly string[], at: number): boolean =>
  alias.every((token, i) => answer[at + i] === token);

const DENIAL = new Set(['not', 'never', 'neither', 'nor', 'isnt', 'wasnt', 'arent', 'werent', 'cannot', 'without']);
const BETWEEN = new Set(['the', 'a', 'an', 'in', 'on', 'at', 'by', 'of']);

/** Whether what starts at a token is denied: "not Paris", "it wasn't in the Louvre". */
function isDenied(answer: readonly string[], at: number): boolean {
  let before = at - 1;
  while (before >= 0 && BETWEEN.has(answer[before]!)) before--;
  return before >= 0 && DENIAL.has(answer[before]!);
}
