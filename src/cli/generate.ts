import type { Command } from 'commander';
import { z } from 'zod';
import type { GenerateTextsOptions } from '../evaluate';
import { checkWritable, finish, integer, number, readRows, writeRows, withModel, type ModelOptions } from './options';
import { ID, loadWithAdapter, MESSAGES } from './rows';

const ROW = z
  .looseObject({ id: ID, prompt: z.string().optional(), messages: MESSAGES.optional() })
  .refine(({ prompt, messages }) => (prompt === undefined) !== (messages === undefined), {
    message: 'has to have one of "prompt" and "messages"',
  });

interface Options extends GenerateTextsOptions, ModelOptions {
  in: string;
  out: string;
  json?: boolean;
  logprobs?: boolean;
}

const more = (text: string, all: string[]) => [...all, text];

export function generate(calm: Command): void {
  withModel(calm.command('generate').description('Continue prompts, or answer conversations'))
    .requiredOption('--in <file>', 'rows {id, prompt} or {id, messages}')
    .requiredOption('--out <file>', 'rows {id, texts, ids}, one text a sample')
    .option('--samples <k>', 'texts for each prompt', integer(1, 10_000), 1)
    .option('--temperature <t>', '0 is greedy; above, tokens are sampled', number(0), 0)
    .option('--top-p <p>', 'sample from the likeliest tokens that reach this probability', number(0, 1), 1)
    .option('--top-k <k>', 'sample from the k likeliest tokens; 0 for all', integer(0), 0)
    .option('--min-p <p>', 'sample from tokens at least this share as likely as the likeliest', number(0, 1), 0)
    .option('--repetition-penalty <r>', 'above 1 makes tokens that the text has less likely', number(0), 1)
    .option('--until <text>', 'a text that ends a continuation; may be given again', more, [])
    .option('--logprobs', 'add log p of every token by the model itself')
    .option('--max-new-tokens <n>', 'the most tokens of a text', integer(1), 128)
    .option('--seed <s>', 'seed of the sampling', integer(0), 0)
    .option('--json', 'print one JSON object')
    .action(async (options: Options) => {
      const rows = await readRows(options.in, ROW, '{"id": …, "prompt": "…"} or {"id": …, "messages": […]}');
      checkWritable(options.out);
      const { generateTexts } = await import('../index.js');
      const model = await loadWithAdapter(options);
      const names = rows.map(({ row }) => String(row.id));
      const prompts = rows.map(({ row }) => row.prompt ?? row.messages ?? []);
      const generated = generateTexts(model, prompts, { ...options, names });
      writeRows(
        options.out,
        generated.map(({ texts, ids, logprobs }, i) => ({
          id: rows[i]!.row.id,
          texts,
          ids,
          ...(options.logprobs && { logprobs }),
        })),
      );
      const tokens = generated.flatMap(({ ids }) => ids.flat()).length;
      finish(
        options,
        { rows: rows.length, tokens, out: options.out },
        `${rows.length} rows, ${tokens} tokens in ${options.out}`,
      );
    });
}
