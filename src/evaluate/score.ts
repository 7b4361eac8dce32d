import { createHash } from 'node:crypto';
import { lastLogits } from '../model';
import { logSoftmax } from '../metrics';
import { renderMessages, type LanguageModel } from '../pretrained';
import { requestKey, type ResponseCache } from './cache';
import { inBatches, loglikelihood, recall, type BatchOptions } from './loglikelihood';
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
  /** Where answers are kept and looked up, see `openCache`; none when absent. */
  cache?: ResponseCache | undefined;
}

/** The scores of one item's options. */
export interface Scored {
  /** Per option; see `Row.logprobs`. */
  logprobs: number[];
  /** Per option, before any normalisation. */
  raw: number[];
  promptHash: string;
  truncated: number;
  /** Where continuations were scored: their texts, and whether each is the model's first choice. */
  continuations?: { texts: string[]; greedy: boolean[] };
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
  const { batchTokens, cache } = options;
  const batching = { batchTokens, cache, label: `${task.name} by ${options.scoring}` };
  const asked = (prompt: string) =>
    options.chat ? renderMessages(model, [{ role: 'user', content: prompt }]) : prompt;
  return options.scoring === 'letter'
    ? scoreLetters(model, task, examples, asked, batching)
    : scoreContinuations(model, task, examples, asked, options, batching);
}

type Asked = (prompt: string) => string;
type Examples = readonly (readonly ChoiceQuestion[])[];

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function scoreLetters(
  model: LanguageModel,
  task: Task,
  examples: Examples,
  asked: Asked,
  batching: BatchOptions,
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
  const keyOf = (i: number) => requestKey('letters', items[i]!.ids, letters.subarray(0, items[i]!.options));
  const logprobs = recall(batching, items.length, keyOf, (missing, found: (i: number, lps: number[]) => void, rest) => {
    const texts = missing.map((i) => items[i]!.ids);
    const more = missing.map(() => 0);
    inBatches(model, texts, more, rest, (batch, prefix) => {
      const prompts = batch.map((j) => texts[j]!);
      lastLogits(model, prompts, letters, prefix).forEach((logits, k) => {
        const i = missing[batch[k]!]!;
        found(i, logSoftmax(Array.from(logits.subarray(0, items[i]!.options))));
      });
    });
  });
  return items.map(({ prompt, truncated }, i) => {
    const mine = logprobs[i]!;
    return { logprobs: mine, raw: mine, promptHash: hash(prompt), truncated };
  });
}

/**
 * What is asked about one item where its options are scored as continuations: in the task's own form or, by
 * `continuation`, in lm-evaluation-harness's.
 * @param asked puts a prompt into a chat template, where one is wanted
 */
export function continuationRequests(
  task: Task,
  doc: ChoiceQuestion,
  examples: readonly ChoiceQuestion[],
  { scoring, chat }: Pick<ScoreOptions, 'scoring' | 'chat'>,
  asked: (prompt: string) => string = (prompt) => prompt,
): { context: string; continuation: string; text: string }[] {
  const form = (scoring === 'continuation' && task.harness) || task;
  const put = (item: ChoiceQuestion) => {
    const prompt = form.prompt(item);
    const prompts = typeof prompt === 'string' ? item.choices.map(() => prompt) : prompt;
    return { prompts, texts: form.continuations?.(item) ?? item.choices };
  };
  const show = (example: ChoiceQuestion) => {
    const { prompts, texts } = put(example);
    return { prompt: prompts[example.answer]!, answer: texts[example.answer]! };
  };
  // That harness has a blank here whatever the prompt ends with, but none after a chat template.
  const lead = (prompt: string, text: string) => {
    if (chat) return text;
    return scoring === 'continuation' ? ` ${text}` : withLead(prompt, text);
  };
  const before = form.description?.(doc) ?? '';
  const { prompts, texts } = put(doc);
  return texts.map((text, k) => {
    const context = asked(before + withExamples(examples, show, prompts[k]!));
    return { context, continuation: lead(context, text), text };
  });
}

function scoreContinuations(
  model: LanguageModel,
  task: Task,
  examples: Examples,
  asked: Asked,
  options: ScoreOptions,
  batching: BatchOptions,
): Scored[] {
  const items = task.docs.map((doc, i) => continuationRequests(task, doc, examples[i]!, options, asked));
  const requests = items.flat().map(({ context, continuation }) => encodePair(model.tokenizer, context, continuation));
  const found = loglikelihood(model, requests, batching);
  let next = 0;
  return items.map((item) => {
    const mine = item.map(() => found[next++]!);
    const texts = item.map(({ text }) => text);
    const divisor = (k: number) => {
      if (options.normalisation === 'token') return mine[k]!.tokenLogProbs.length;
      return options.normalisation === 'byte' ? Buffer.byteLength(texts[k]!) : 1;
    };
    return {
      logprobs: mine.map(({ logProb }, k) => logProb / divisor(k)),
      raw: mine.map(({ logProb }) => logProb),
      promptHash: hash([...new Set(item.map(({ context }) => context))].join('\n')),
      truncated: Math.max(...mine.map(({ truncated }) => truncated)),
      continuations: { texts, greedy: mine.map(({ isGreedy }) => isGreedy) },
    };
  });
}
