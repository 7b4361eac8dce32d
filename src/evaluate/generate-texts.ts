import { CalmError } from '../base/errors';
import { startProgress } from '../base/progress';
import { lengthBuckets, type ChatMessage } from '../data';
import { Random } from '../engine';
import { generate } from '../model';
import { renderMessages, type LanguageModel } from '../pretrained';

export interface GenerateTextsOptions {
  /** Texts for each prompt. */
  samples?: number;
  /** 0 is greedy; above, tokens are sampled. */
  temperature?: number;
  topP?: number;
  maxNewTokens?: number;
  seed?: number;
  /** What each prompt is known by: its random stream depends on the seed and this, not on its neighbours. */
  names?: readonly string[];
}

/** The samples of one prompt; the token that ended a text is not part of it. */
export interface Generated {
  texts: string[];
  ids: number[][];
}

/**
 * Continues prompts, or answers conversations by the model's chat template. Progress is shown.
 * @throws CalmError when a prompt is empty or leaves no room for new tokens
 */
export function generateTexts(
  model: LanguageModel,
  prompts: readonly (string | readonly ChatMessage[])[],
  options: GenerateTextsOptions = {},
): Generated[] {
  const { samples = 1, temperature = 0, topP = 1, maxNewTokens = 128, seed = 0, names } = options;
  const nameOf = (row: number) => names?.[row] ?? String(row);
  const encoded = prompts.map((prompt, row) => encodePrompt(model, prompt, maxNewTokens, nameOf(row)));
  const random = Random.seed(seed).stream('generate');
  const texts = encoded.flatMap((ids, row) => Array.from({ length: samples }, (_, sample) => ({ ids, row, sample })));
  const out = encoded.map((): Generated => ({ texts: [], ids: [] }));
  const stop = new Set(model.tokenizer.eosId === undefined ? [] : [model.tokenizer.eosId]);
  const progress = startProgress('generating', texts.length);
  let done = 0;
  const lengths = texts.map(({ ids }) => ids.length + maxNewTokens);
  for (const batch of lengthBuckets(lengths, { maxTokens: 8192, maxRows: 32 }).batches) {
    const mine = batch.map((i) => texts[i]!);
    const streams = mine.map(({ row, sample }) => random.stream(`${nameOf(row)}/${sample}`));
    const ids = generate(
      model,
      mine.map((text) => text.ids),
      { maxNewTokens, temperature, topP, random: streams, stop },
      (step) => progress.update(done, `token ${step} of ${batch.length} texts`),
    );
    mine.forEach(({ row, sample }, j) => {
      out[row]!.ids[sample] = ids[j]!;
      out[row]!.texts[sample] = model.tokenizer.decode(ids[j]!);
    });
    progress.update((done += batch.length));
  }
  progress.stop();
  return out;
}

function encodePrompt(
  model: LanguageModel,
  prompt: string | readonly ChatMessage[],
  maxNewTokens: number,
  name: string,
): number[] {
  const ids = model.tokenizer.encode(typeof prompt === 'string' ? prompt : renderMessages(model, prompt));
  if (ids.length === 0) throw new CalmError(`prompt ${name} is empty`);
  const { maxPositions } = model.config;
  if (ids.length + maxNewTokens > maxPositions) {
    throw new CalmError(
      `prompt ${name}: ${ids.length} tokens and ${maxNewTokens} new ones exceed the model's ${maxPositions}`,
      { remedy: 'shorten it or ask for fewer new tokens' },
    );
  }
  return ids;
}
