import type { Command } from 'commander';
import { z } from 'zod';
import { checkWritable, finish, readRows, writeRows } from './options';
import { ID, MESSAGES, naming } from './rows';

const ROW = z
  .looseObject({
    id: ID,
    text: z.string().optional(),
    messages: MESSAGES.optional(),
    add_generation_prompt: z.boolean().default(false),
  })
  .refine(({ text, messages }) => (text === undefined) !== (messages === undefined), {
    message: 'has to have one of "text" and "messages"',
  });

export function tokenize(calm: Command): void {
  calm
    .command('tokenize')
    .description('Turn texts, or conversations by the chat template, into token ids')
    .requiredOption('--model <model>', 'preset, .gguf file, or folder in Hugging Face layout')
    .requiredOption('--in <file>', 'rows {id, text} or {id, messages, add_generation_prompt?}')
    .requiredOption('--out <file>', 'rows {id, ids}')
    .option('--special-as-text', "read special tokens' markers in the text as plain characters")
    .option('--json', 'print one JSON object')
    .action(async (options: { model: string; in: string; out: string; specialAsText?: boolean; json?: boolean }) => {
      const rows = await readRows(options.in, ROW, '{"id": …, "text": "…"} or {"id": …, "messages": […]}');
      checkWritable(options.out);
      const { loadTokenizer, renderMessages } = await import('../index.js');
      const tokenizer = loadTokenizer(options.model);
      let tokens = 0;
      const encoded = rows.map(({ row, where }) =>
        naming(where, () => {
          const text = row.text ?? renderMessages({ tokenizer }, row.messages ?? [], row.add_generation_prompt);
          const ids = tokenizer.encode(text, options.specialAsText ? { specialTokens: 'as-text' } : {});
          tokens += ids.length;
          return { id: row.id, ids };
        }),
      );
      writeRows(options.out, encoded);
      finish(
        options,
        { rows: rows.length, tokens, out: options.out },
        `${rows.length} rows, ${tokens} tokens in ${options.out}`,
      );
    });
}
