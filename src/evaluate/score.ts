import { UsageError } from '../base/errors';
import { shortHash } from '../base/hash';
import { breathe, startProgress } from '../base/progress';
import { lastLogits, type ScoreRequest } from '../model';
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
  /**
   * Whether the prompt is put into the model's chat template: examples and question as one message of a user, or
   * (`multiturn`) each example as a turn of a user and an assistant.
   */
  chat: boolean | 'multiturn';
  /** What stands before everything, as the system's message in a chat. */
  system?: string | undefined;
  /** Tokens computed at once: bounds memory; results do not depend on it. */
  batchTokens: number;
  /** Where answers are kept and looked up, see `openCache`; none when absent. */
  cache?: ResponseCache | undefined;
}

/** The scores of one item's options, or why it has none. */
export type Scored = OptionScores | { excluded: string };

export interface OptionScores {
  /** Per option; see `Row.logprobs`. */
  logprobs: number[];
  /** Per option, before any normalisation. */
  raw: number[];
  promptHash: string;
  truncated: number;
  /** Where continuations were scored: their texts, and whether each is the model's first choice. */
  continuations?: { texts: string[]; greedy: boolean[] };
}

/** Questions whose tokens are held at once, so that memory does not grow with their number. */
export const QUESTIONS_AT_ONCE = 1000;

/**
 * Scores every question of a task, in the order of its docs, after its examples. Progress with an ETA is shown.
 * @param examples per question, those that stand before it
 */
export async function scoreTask(
  model: LanguageModel,
  task: Task,
  examples: readonly (readonly ChoiceQuestion[])[],
  options: ScoreOptions,
): Promise<Scored[]> {
  const { scoring, batchTokens, cache } = options;
  const requestsOf = ({ choices }: ChoiceQuestion) => (scoring === 'letter' ? 1 : choices.length);
  const requests = task.docs.reduce((sum, doc) => sum + requestsOf(doc), 0);
  const progress = startProgress(`${task.name} by ${scoring}`, requests);
  const score = scoring === 'letter' ? scoreLetters : scoreContinuations;
  const scored: Scored[] = [];
  for (let from = 0; from < task.docs.length; from += QUESTIONS_AT_ONCE) {
    const [mine, before] = [task.docs, examples].map((all) => all.slice(from, from + QUESTIONS_AT_ONCE)) as [
      ChoiceQuestion[],
      ChoiceQuestion[][],
    ];
    scored.push(...score(model, { ...task, docs: mine }, before, options, { batchTokens, cache, progress }));
    await breathe();
  }
  progress.stop();
  return scored;
}

const NOT_FINITE = 'a score is not a finite number';

type Examples = readonly (readonly ChoiceQuestion[])[];

function scoreLetters(
  model: LanguageModel,
  task: Task,
  examples: Examples,
  options: ScoreOptions,
  batching: BatchOptions,
): Scored[] {
  const show = (doc: ChoiceQuestion) => ({ prompt: letterPrompt(doc), answer: LETTERS[doc.answer]! });
  const items = task.docs.map((doc, i) => {
    const prompt = assemble(model, options, '', examples[i]!.map(show), letterPrompt(doc));
    const all = model.tokenizer.encode(prompt);
    const ids = all.slice(-model.config.maxPositions);
    return { prompt, ids, truncated: all.length - ids.length, options: doc.choices.length };
  });
  const most = Math.max(...items.map((item) => item.options));
  const letters = letterTokens(model.tokenizer, most, items[0]?.prompt ?? '');
  const keyOf = (i: number) => requestKey('letters', items[i]!.ids, letters.subarray(0, items[i]!.options));
  const logprobs = recall(batching, items.length, keyOf, (missing, found: (i: number, lps: number[]) => void, rest) => {
    const texts = missing.map((i) => items[i]!.ids);
    inBatches(model, texts, texts, rest, (batch, prefix) => {
      const prompts = batch.map((j) => texts[j]!);
      lastLogits(model, prompts, letters, prefix).forEach((logits, k) => {
        const i = missing[batch[k]!]!;
        found(i, logSoftmax(Array.from(logits.subarray(0, items[i]!.options))));
      });
    });
  });
  return items.map(({ prompt, truncated }, i): Scored => {
    const mine = logprobs[i]!;
    if (!mine.every(Number.isFinite)) return { excluded: NOT_FINITE };
    return { logprobs: mine, raw: mine, promptHash: shortHash(prompt), truncated };
  });
}

/** The whole text of a prompt after its description and examples, as plain text or a conversation. */
export function assemble(
  model: Pick<LanguageModel, 'tokenizer'>,
  { scoring, chat, system = '' }: Pick<ScoreOptions, 'scoring' | 'chat' | 'system'>,
  description: string,
  examples: readonly { prompt: string; answer: string }[],
  prompt: string,
): string {
  // A blank line apart, unless there is white space already; lm-evaluation-harness has none without a description.
  const apart = (a: string, b: string) => (a !== '' && b !== '' && !/\s$/.test(a) && !/^\s/.test(b) ? '\n\n' : '');
  const before = system + apart(system, description) + description;
  if (chat === false) {
    const text = withExamples(examples, prompt);
    return before + (scoring === 'continuation' ? '' : apart(before, text)) + text;
  }
  const turns = chat === 'multiturn' ? examples : [];
  return renderMessages(model, [
    ...(before === '' ? [] : [{ role: 'system', content: before }]),
    ...turns.flatMap((example) => [
      { role: 'user', content: example.prompt },
      { role: 'assistant', content: example.answer },
    ]),
    { role: 'user', content: chat === 'multiturn' ? prompt : withExamples(examples, prompt) },
  ]);
}

/**
 * What is asked about one item where its options are scored as continuations: in the task's own form or, by
 * `continuation`, in lm-evaluation-harness's.
 */
export function continuationRequests(
  model: Pick<LanguageModel, 'tokenizer'>,
  task: Task,
  doc: ChoiceQuestion,
  examples: readonly ChoiceQuestion[],
  options: Pick<ScoreOptions, 'scoring' | 'chat' | 'system'>,
): { context: string; continuation: string; text: string }[] {
  const { scoring, chat } = options;
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
    if (chat !== false) return text;
    return scoring === 'continuation' ? ` ${text}` : withLead(prompt, text);
  };
  const description = form.description?.(doc) ?? '';
  const { prompts, texts } = put(doc);
  return texts.map((text, k) => {
    const context = assemble(model, options, description, examples.map(show), prompts[k]!);
    return { context, continuation: lead(context, text), text };
  });
}

function scoreContinuations(
  model: LanguageModel,
  task: Task,
  examples: Examples,
  options: ScoreOptions,
  batching: BatchOptions,
): Scored[] {
  const items = task.docs.map((doc, i): Encoded => {
    const asked = continuationRequests(model, task, doc, examples[i]!, options);
    try {
      return {
        asked,
        requests: asked.map(({ context, continuation }) => encodePair(model.tokenizer, context, continuation)),
      };
    } catch (error) {
      if (error instanceof UsageError) return { asked, requests: [], excluded: error.message };
      throw error;
    }
  });
  const found = loglikelihood(
    model,
    items.flatMap(({ requests }) => requests),
    batching,
  );
  let next = 0;
  return items.map(({ asked, requests, excluded }): Scored => {
    if (excluded !== undefined) return { excluded };
    const mine = requests.map(() => found[next++]!);
    if (mine.some(({ tokenLogProbs }) => tokenLogProbs.length === 0)) {
      return { excluded: `an option by itself exceeds the model's ${model.config.maxPositions} tokens` };
    }
    if (!mine.every(({ logProb }) => Number.isFinite(logProb))) return { excluded: NOT_FINITE };
    const texts = asked.map(({ text }) => text);
    const divisor = (k: number) => {
      if (options.normalisation === 'token') return mine[k]!.tokenLogProbs.length;
      return options.normalisation === 'byte' ? Buffer.byteLength(texts[k]!) : 1;
    };
    return {
      logprobs: mine.map(({ logProb }, k) => logProb / divisor(k)),
      raw: mine.map(({ logProb }) => logProb),
      promptHash: shortHash([...new Set(asked.map(({ context }) => context))].join('\n')),
      truncated: Math.max(...mine.map(({ truncated }) => truncated)),
      continuations: { texts, greedy: mine.map(({ isGreedy }) => isGreedy) },
    };
  });
}

interface Encoded {
  asked: ReturnType<typeof continuationRequests>;
  requests: ScoreRequest[];
  excluded?: string;
}
