import { UsageError } from '../base/errors';
import type { Tokenizer } from '../data';
import type { ScoreRequest } from '../model';

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
