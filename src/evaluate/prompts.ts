import { CalmError, UsageError } from '../base/errors';
import type { ChoiceQuestion, Tokenizer } from '../data';
import type { ScoreRequest } from './loglikelihood';

export const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** The question, one line `A. …` per option, then `Answer:`. */
export function letterPrompt(doc: ChoiceQuestion): string {
  const options = doc.choices.map((choice, i) => `${LETTERS[i]}. ${choice}`);
  return `${doc.question}\n${options.join('\n')}\nAnswer:`;
}

/**
 * The vocabulary entry of each letter as it follows a prompt: ` A` after text, `A` after a line break or blank.
 * @throws CalmError when a letter is not one token in this tokenizer
 */
export function letterTokens(tokenizer: Tokenizer, count: number, promptEnd: string): Int32Array {
  if (count > LETTERS.length) throw new UsageError(`${count} options are more than there are letters`);
  const lead = /\s$/.test(promptEnd) ? '' : ' ';
  return Int32Array.from({ length: count }, (_, i) => {
    const ids = tokenizer.encode(`${lead}${LETTERS[i]}`, { addBos: false });
    if (ids.length !== 1) {
      throw new CalmError(`"${lead}${LETTERS[i]}" is ${ids.length} tokens in this tokenizer`, {
        remedy: 'score by cloze instead',
      });
    }
    return ids[0] as number;
  });
}

/**
 * Splits text into context and continuation tokens as lm-evaluation-harness does: blanks at the end of the context
 * move to the continuation, both are encoded together and cut at the context's own length. Where a token spans the
 * border and nothing would be left to score, the continuation is encoded by itself (EleutherAI/lm-evaluation-harness#1053).
 * @throws UsageError for an empty continuation, which would otherwise score a perfect 0
 */
export function encodePair(tokenizer: Tokenizer, context: string, continuation: string): ScoreRequest {
  if (continuation === '') throw new UsageError('an empty continuation cannot be scored');
  const blanks = context.length - context.trimEnd().length;
  const before = blanks > 0 ? context.slice(0, -blanks) : context;
  const after = blanks > 0 ? context.slice(-blanks) + continuation : continuation;
  const contextIds = tokenizer.encode(before);
  if (contextIds.length === 0) {
    // Nothing to condition on: the model's own start token, as lm-evaluation-harness does.
    return {
      context: [tokenizer.bosId ?? tokenizer.eosId ?? 0],
      continuation: tokenizer.encode(after, { addBos: false }),
    };
  }
  const tail = tokenizer.encode(before + after).slice(contextIds.length);
  return { context: contextIds, continuation: tail.length > 0 ? tail : tokenizer.encode(after, { addBos: false }) };
}
