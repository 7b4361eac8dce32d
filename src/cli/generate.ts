import type { Command } from 'commander';
import { z } from 'zod';
import { CalmError } from '../base/errors';
import { startProgress } from '../base/progress';
import { lengthBuckets } from '../data';
import { Random } from '../engine';
import { generate } from '../model';
import { loadModel, renderMessages, type LanguageModel } from '../pretrained';
import { finish, integer, number, readRows, writeRows } from './options';
import { ID, MESSAGES, naming } from './rows';

const ROW = z
  .looseObject({ id: ID, prompt: z.string().optional(), messages: MESSAGES.optional() })
  .refine(({ prompt, messages }) => (prompt === undefined) !== (messages === undefined), {
    message: 'has to have one of "prompt" and "messages"',
  });

interface Options {
  model: string;
  in: string;
  out: string;
  samples: number;
  temperature: number;
  topP: number;
  maxNewTokens: number;
  seed: number;
  json?: boolean;
}

export function generateTexts(calm: Command): void {
  calm
    .command('generate')
    .description('Continue prompts, or answer conversations')
    .requiredOption('--model <model>', 'preset, .gguf file, or folder in Hugging Face layout')
    .requiredOption('--in <file>', 'rows {id, prompt} or {id, messages}')
    .requiredOption('--out <file>', 'rows {id, texts, ids}, one text a sample')
    .option('--samples <k>', 'texts for each prompt', integer(1), 1)
    .option('--temperature <t>', '0 is greedy; above, tokens are sampled', number(0), 0)
    .option('--top-p <p>', 'sample from the likeliest tokens that reach this probability', number(0, 1), 1)
    .option('--max-new-tokens <n>', 'the most tokens of a text', integer(1), 128)
    .option('--seed <s>', 'seed of the sampling', integer(0), 0)
    .option('--json', 'print one JSON object')
    .action(async (options: Options) => {
      const rows = await readRows(options.in, ROW, '{"id": …, "prompt": "…"} or {"id": …, "messages": […]}');
      const model = await loadModel(options.model);
      const prompts = rows.map(({ row, where }) => naming(where, () => encodePrompt(model, row, options.maxNewTokens)));
      const ids = sampleAll(model, prompts, options, (i) => String(rows[i]!.row.id));
      writeRows(
        options.out,
        rows.map(({ row }, i) => ({
          id: row.id,
          texts: ids[i]!.map((text) => model.tokenizer.decode(text)),
          ids: ids[i],
        })),
      );
      const tokens = ids.flat(2).length;
      finish(
        options,
        { rows: rows.length, tokens, out: options.out },
        `${rows.length} rows, ${tokens} tokens in ${options.out}`,
      );
    });
}

function encodePrompt(model: LanguageModel, row: z.output<typeof ROW>, maxNewTokens: number): number[] {
  const ids = model.tokenizer.encode(row.prompt ?? renderMessages(model, row.messages ?? []));
  if (ids.length === 0) throw new CalmError('the prompt is empty');
  const { maxPositions } = model.config;
  if (ids.length + maxNewTokens > maxPositions) {
    throw new CalmError(`${ids.length} tokens and ${maxNewTokens} new ones exceed the model's ${maxPositions}`, {
      remedy: 'shorten the prompt or lower --max-new-tokens',
    });
  }
  return ids;
}

/** The samples of each prompt. A text depends on the seed, its row's id and its number only, not on its neighbours. */
function sampleAll(
  model: LanguageModel,
  prompts: readonly (readonly number[])[],
  { samples, temperature, topP, maxNewTokens, seed }: Options,
  idOf: (row: number) => string,
): number[][][] {
  const random = Random.seed(seed).stream('generate');
  const texts = prompts.flatMap((_, row) => Array.from({ length: samples }, (_, sample) => ({ row, sample })));
  const lengths = texts.map(({ row }) => prompts[row]!.length + maxNewTokens);
  const out = prompts.map((): number[][] => []);
  const stop = new Set(model.tokenizer.eosId === undefined ? [] : [model.tokenizer.eosId]);
  const progress = startProgress('generating', texts.length);
  let done = 0;
  for (const batch of lengthBuckets(lengths, { maxTokens: 8192, maxRows: 32 }).batches) {
    const mine = batch.map((i) => texts[i]!);
    const streams = mine.map(({ row, sample }) => random.stream(`${idOf(row)}/${sample}`));
    const ids = generate(
      model,
      mine.map(({ row }) => prompts[row]!),
      { maxNewTokens, temperature, topP, random: streams, stop },
      (step) => progress.update(done, `token ${step} of ${batch.length} texts`),
    );
    mine.forEach(({ row, sample }, j) => (out[row]![sample] = ids[j]!));
    progress.update((done += batch.length));
  }
  progress.stop();
  return out;
}
