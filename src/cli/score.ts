import type { Command } from 'commander';
import { z } from 'zod';
import { CalmError } from '../base/errors';
import type { ScoreRequest } from '../model';
import { encodePair } from '../evaluate/prompts';
import type { LanguageModel } from '../pretrained';
import { checkWritable, finish, integer, readRows, writeRows, withModel, type ModelOptions } from './options';
import { checkIds, ID, IDS, loadWithAdapter, naming } from './rows';

const ROW = z
  .looseObject({
    id: ID,
    context: z.string().optional(),
    context_ids: IDS.optional(),
    continuation: z.string().optional(),
    continuation_ids: IDS.optional(),
  })
  .refine((row) => (row.context === undefined) !== (row.context_ids === undefined), {
    message: 'has to have one of "context" and "context_ids"',
  })
  .refine((row) => (row.continuation === undefined) !== (row.continuation_ids === undefined), {
    message: 'has to have one of "continuation" and "continuation_ids"',
  });

interface Options extends ModelOptions {
  in: string;
  out: string;
  batchTokens: number;
  json?: boolean;
}

export function score(calm: Command): void {
  withModel(calm.command('score').description('Score continuations: log p(continuation | context), token by token'))
    .requiredOption('--in <file>', 'rows {id, context | context_ids, continuation | continuation_ids}')
    .requiredOption('--out <file>', 'rows {id, logprob, is_greedy, token_logprobs}, and truncated where text was cut')
    .option('--batch-tokens <n>', 'tokens computed at once; bounds memory, changes no result', integer(1), 2048)
    .option('--json', 'print one JSON object')
    .action(async (options: Options) => {
      const rows = await readRows(options.in, ROW, '{"id": …, "context": "…", "continuation": "…"}');
      checkWritable(options.out);
      const { loglikelihood } = await import('../index.js');
      const model = await loadWithAdapter(options);
      const requests = rows.map(({ row, where }) => naming(where, () => toRequest(model, row)));
      const scores = loglikelihood(model, requests, { batchTokens: options.batchTokens });
      writeRows(
        options.out,
        scores.map(({ logProb, isGreedy, tokenLogProbs, truncated }, i) => ({
          id: rows[i]!.row.id,
          logprob: logProb,
          is_greedy: isGreedy,
          token_logprobs: tokenLogProbs,
          ...(truncated > 0 && { truncated }),
        })),
      );
      const cut = scores.filter(({ truncated }) => truncated > 0).length;
      finish(
        options,
        { rows: rows.length, truncated: cut, model_hash: model.hash, out: options.out },
        `${rows.length} rows in ${options.out}${cut > 0 ? `; the context of ${cut} was cut from the left` : ''}`,
      );
    });
}

function toRequest({ tokenizer }: LanguageModel, row: z.output<typeof ROW>): ScoreRequest {
  const { context, continuation } = row;
  if (context !== undefined && continuation !== undefined) return encodePair(tokenizer, context, continuation);
  const given = row.context_ids ?? tokenizer.encode(context ?? '');
  const ids = row.continuation_ids ?? tokenizer.encode(continuation ?? '', { addBos: false });
  if (ids.length === 0) throw new CalmError('an empty continuation cannot be scored');
  // Nothing to condition on: the model's own start token, as for an empty text.
  const start = given.length > 0 ? given : encodePair(tokenizer, '', 'x').context;
  return { context: checkIds(start, tokenizer.vocabSize), continuation: checkIds(ids, tokenizer.vocabSize) };
}
