import { createHash } from 'node:crypto';
import { lastLogits } from '../model';
import { logSoftmax } from '../metrics';
import { renderMessages, type LanguageModel } from '../pretrained';
import { inBatches, loglikelihood } from './loglikelihood';
import type { ChoiceQuestion } from '../data';
import { letterPrompt, LETTERS, letterTokens, withExamples, withLead } from '../data';
import { encodePair } from './prompts';
import type { Normalisation, Scoring, Task } from './types';

export interface ScoreOptions {
  scoring: Scoring;
  normalisation: Normalisation;
  /** Put the prompt into the model's chat template as a user's message. */
  chat: boolean;
  /** Tokens computed at once: bounds memory; results do not depend on it. */
  batchTokens: number;
}

/** The scores of one item's options. */
export interface Scored {
  /** Per option; see `Row.logprobs`. */
  logprobs: number[];
  /** Per option, before any normalisation. */
  raw: number[];
  promptHash: string;
  truncated: number;
}

/**
 * Scores every question of a task, in the order of its docs, after its examples. Progress with an ETA is shown.
 * @param examples per question, those that stand before it
 */
export function scoreTask(
  model: LanguageModel,
  task: Task,
  examples: readonly (readonly ChoiceQuestion[])[],
  options: ScoreOptions,
): Scored[] {
  const batching = { batchTokens: options.batchTokens, label: `${task.name} by ${options.scoring}` };
  const asked = (prompt: string) =>
    options.chat ? renderMessages(model, [{ role: 'user', content: prompt }]) : prompt;
  return options.scoring === 'letter'
    ? scoreLetters(model, task, examples, asked, batching)
    : scoreCloze(model, task, examples, asked, options.normalisation, batching);
}

type Asked = (prompt: string) => string;
type Examples = readonly (readonly ChoiceQuestion[])[];
type Batching = { batchTokens: number; label: string };

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function scoreLetters(
  model: LanguageModel,
  task: Task,
  examples: Examples,
  asked: Asked,
  batching: Batching,
): Scored[] {
  const show = (doc: ChoiceQuestion) => ({ prompt: letterPrompt(doc), answer: LETTERS[doc.answer]! });
  const items = task.docs.map((doc, i) => {
    const prompt = asked(withExamples(examples[i]!, show, letterPrompt(doc)));
    const all = model.tokenizer.encode(prompt);
    const ids = all.slice(-model.config.maxPositions);
    return { prompt, ids, truncated: all.length - ids.length, options: doc.choices.length };
  });
  const most = Math.max(...items.map((item) => item.options));
  const letters = letterTokens(model.tokenizer, most, items[0]?.prompt ?? '');
  const scored = new Array<Scored>(items.length);
  const texts = items.map((item) => item.ids);
  const more = items.map(() => 0);
  inBatches(model, texts, more, batching, (batch, prefix) => {
    const prompts = batch.map((i) => items[i]!.ids);
    lastLogits(model, prompts, letters, prefix).forEach((logits, j) => {
      const { prompt, truncated, options } = items[batch[j]!]!;
      const logprobs = logSoftmax(Array.from(logits.subarray(0, options)));
      scored[batch[j]!] = { logprobs, raw: logprobs, promptHash: hash(prompt), truncated };
    });
  });
  return scored;
}

function scoreCloze(
  model: LanguageModel,
  task: Task,
  examples: Examples,
  asked: Asked,
  normalisation: Normalisation,
  batching: Batching,
): Scored[] {
  const show = (doc: ChoiceQuestion) => ({ prompt: task.prompt(doc), answer: doc.choices[doc.answer]! });
  const prompts = task.docs.map((doc, i) => asked(withExamples(examples[i]!, show, task.prompt(doc))));
  const requests = task.docs.map((doc, i) =>
    doc.choices.map((choice) => encodePair(model.tokenizer, prompts[i]!, withLead(prompts[i]!, choice))),
  );
  const found = loglikelihood(model, requests.flat(), batching);
  let next = 0;
  return task.docs.map((doc, i) => {
    const mine = doc.choices.map(() => found[next++]!);
    const divisor = (k: number) => {
      if (normalisation === 'token') return mine[k]!.tokenLogProbs.length;
      return normalisation === 'byte' ? Buffer.byteLength(doc.choices[k]!) : 1;
    };
    return {
      logprobs: mine.map(({ logProb }, k) => logProb / divisor(k)),
      raw: mine.map(({ logProb }) => logProb),
      promptHash: hash(prompts[i]!),
      truncated: Math.max(...mine.map(({ truncated }) => truncated)),
    };
  });
}
