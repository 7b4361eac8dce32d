import { CalmError, UsageError } from '../base/errors';
import type { ChoiceQuestion, Tokenizer } from '../data';
import type { ScoreRequest } from './loglikelihood';

export const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** The question (after its passage, where it has one), one line `A. …` per option, then `Answer:`. */
export function letterPrompt({ passage, question, choices }: ChoiceQuestion): string {
  const options = choices.map((choice, i) => `${LETTERS[i]}. ${choice}`);
  return [...(passage ? [passage] : []), question, ...options, 'Answer:'].join('\n');
}

/** The blank between a prompt and what answers it, unless the prompt ends with one. */
export function withLead(prompt: string, answer: string): string {
  return /\s$/.test(prompt) ? answer : ` ${answer}`;
}

/** Worked examples, each with its answer and a blank line after it, before a prompt. */
export function withExamples(
  examples: readonly ChoiceQuestion[],
  show: (doc: ChoiceQuestion) => { prompt: string; answer: string },
  prompt: string,
): string {
  const shown = examples.map(show).map((example) => example.prompt + withLead(example.prompt, example.answer));
  return [...shown, prompt].join('\n\n');
}

/**
 * The vocabulary entry of each letter as it follows a prompt: ` A` after text, `A` after a line break or blank.
 * @throws CalmError when a letter is not one token in this tokenizer
 */
export function letterTokens(tokenizer: Tokenizer, count: number, promptEnd: string): Int32Array {
  if (count > LETTERS.length) throw new UsageError(`${count} options are more than there are letters`);
  return Int32Array.from({ length: count }, (_, i) => {
    const letter = withLead(promptEnd, LETTERS[i] as string);
    const ids = tokenizer.encode(letter, { addBos: false });
    if (ids.length !== 1) {
      throw new CalmError(`"${letter}" is ${ids.length} tokens in this tokenizer`, {
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
 * @throws UsageError for an empty continuation, or one without tokens, which would otherwise score a perfect 0
 */
export function encodePair(tokenizer: Tokenizer, context: string, continuation: string): ScoreRequest {
  if (continuation === '') throw new UsageError('an empty continuation cannot be scored');
  const blanks = context.length - context.trimEnd().length;
  const before = blanks > 0 ? context.slice(0, -blanks) : context;
  const after = blanks > 0 ? context.slice(-blanks) + continuation : continuation;
  const contextIds = tokenizer.encode(before);
  const tail = contextIds.length === 0 ? [] : tokenizer.encode(before + after).slice(contextIds.length);
  const alone = tail.length > 0 ? tail : tokenizer.encode(after, { addBos: false });
  if (alone.length === 0) throw new UsageError(`the continuation ${JSON.stringify(continuation)} has no tokens`);
  // Nothing to condition on: the model's own start token, as lm-evaluation-harness does.
  const start = [tokenizer.bosId ?? tokenizer.eosId ?? 0];
  return { context: contextIds.length > 0 ? contextIds : start, continuation: alone };
}
