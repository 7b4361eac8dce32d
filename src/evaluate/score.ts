import { createHash } from 'node:crypto';
import { CalmError } from '../base/errors';
import { startProgress } from '../base/progress';
import { lengthBuckets, type ChoiceQuestion } from '../data';
import { lastLogits, scoreBranches } from '../model/score';
import { logSoftmax } from '../metrics';
import { renderMessages, type LanguageModel } from '../pretrained';
import { encodePair, letterPrompt, letterTokens } from './prompts';
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
  promptHash: string;
  truncated: number;
}

/** Scores every question of a task, in the order of its docs. Progress with an ETA is shown. */
export function scoreTask(model: LanguageModel, task: Task, options: ScoreOptions): Scored[] {
  const label = `${task.name} by ${options.scoring}`;
  return options.scoring === 'letter'
    ? scoreLetters(model, task, options, label)
    : scoreCloze(model, task, options, label);
}

function asChat(model: LanguageModel, prompt: string): string {
  return renderMessages(model, [{ role: 'user', content: prompt }]);
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Runs `work` on batches of similar length, longest first, and shows how far it is. */
function inBatches(label: string, lengths: number[], batchTokens: number, work: (items: number[]) => void): void {
  const progress = startProgress(label, lengths.length);
  let done = 0;
  for (const items of lengthBuckets(lengths, { maxTokens: batchTokens }).batches) {
    work(items);
    progress.update((done += items.length));
  }
  progress.stop();
}

function scoreLetters(model: LanguageModel, task: Task, options: ScoreOptions, label: string): Scored[] {
  const items = task.docs.map((doc) => {
    const prompt = options.chat ? asChat(model, letterPrompt(doc)) : letterPrompt(doc);
    const all = model.tokenizer.encode(prompt);
    const ids = all.slice(-model.config.maxPositions);
    return { prompt, ids, truncated: all.length - ids.length, options: doc.choices.length };
  });
  const most = Math.max(...items.map((item) => item.options));
  const letters = letterTokens(model.tokenizer, most, items[0]?.prompt ?? '');
  const scored = new Array<Scored>(items.length);
  inBatches(
    label,
    items.map((item) => item.ids.length),
    options.batchTokens,
    (batch) => {
      const mine = batch.map((i) => items[i]!);
      lastLogits(
        model,
        mine.map((item) => item.ids),
        letters,
      ).forEach((logits, j) => {
        const { prompt, truncated, options: count } = mine[j]!;
        scored[batch[j]!] = {
          logprobs: logSoftmax(Array.from(logits.subarray(0, count))),
          promptHash: hash(prompt),
          truncated,
        };
      });
    },
  );
  return scored;
}

function scoreCloze(model: LanguageModel, task: Task, options: ScoreOptions, label: string): Scored[] {
  const items = task.docs.map((doc) => clozeItem(model, task, doc, options));
  const scored = new Array<Scored>(items.length);
  const lengths = items.map(({ ids, branches }) => ids.length + branches.reduce((sum, b) => sum + b.length, 0));
  inBatches(label, lengths, options.batchTokens, (batch) => {
    const mine = batch.map((i) => items[i]!);
    scoreBranches(model, mine).forEach((continuations, j) => {
      const { prompt, truncated, divisors } = mine[j]!;
      const logprobs = continuations.map((c, k) => c.tokenLogProbs.reduce((a, b) => a + b, 0) / divisors[k]!);
      scored[batch[j]!] = { logprobs, promptHash: hash(prompt), truncated };
    });
  });
  return scored;
}

function clozeItem(model: LanguageModel, task: Task, doc: ChoiceQuestion, { chat, normalisation }: ScoreOptions) {
  const prompt = chat ? asChat(model, task.prompt(doc)) : task.prompt(doc);
  const lead = /\s$/.test(prompt) ? '' : ' ';
  const pairs = doc.choices.map((choice) => encodePair(model.tokenizer, prompt, `${lead}${choice}`));
  const branches = pairs.map((pair) => pair.continuation);
  const context = pairs[0]!.context;
  const longest = Math.max(...branches.map((b) => b.length));
  // The last token of an option is only predicted, never read, so it needs no place in the context.
  const room = model.config.maxPositions - (longest - 1);
  if (room < 1) {
    throw new CalmError(`${task.name}, ${doc.id}: an option of ${longest} tokens exceeds the model's context`, {
      remedy: `leave it out; the model reads ${model.config.maxPositions} tokens`,
    });
  }
  const ids = context.slice(-room);
  const divisors = doc.choices.map((choice, k) =>
    normalisation === 'token' ? branches[k]!.length : normalisation === 'byte' ? Buffer.byteLength(choice) : 1,
  );
  return { prompt, ids, branches, divisors, truncated: context.length - ids.length };
}
