import { CalmError } from '../base/errors';
import { startProgress } from '../base/progress';
import type { ChatMessage } from '../data';
import { renderMessages, type LanguageModel } from '../pretrained';
import { continueAll, type ContinueOptions, type Generated } from './continue';

export interface GenerateTextsOptions extends ContinueOptions {
  maxNewTokens?: number;
  /** Texts that end a continuation, whatever tokens make them up; they are not part of it. */
  until?: readonly string[];
  /** What each prompt is known by: its random streams depend on the seed and this, not on its neighbours. */
  names?: readonly string[];
}

/**
 * Continues prompts, or answers conversations by the model's chat template. A prompt is computed once for its samples.
 * Progress is shown.
 * @throws CalmError when a prompt is empty or leaves no room for new tokens; UsageError as `checkSampling`
 */
export function generateTexts(
  model: LanguageModel,
  prompts: readonly (string | readonly ChatMessage[])[],
  { maxNewTokens = 128, until = [], names, ...options }: GenerateTextsOptions = {},
): Generated[] {
  const asked = prompts.map((prompt, row) => {
    const name = names?.[row] ?? String(row);
    return { ids: encodePrompt(model, prompt, maxNewTokens, name), until, maxNewTokens, name };
  });
  const out = new Array<Generated>(asked.length);
  const progress = startProgress('generating', asked.length);
  let done = 0;
  continueAll(
    model,
    asked,
    options,
    (i, generated) => {
      out[i] = generated;
      progress.update(++done);
    },
    (step, texts) => progress.update(done, `token ${step} of ${texts} texts`),
  );
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
