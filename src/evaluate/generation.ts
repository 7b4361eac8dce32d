import { shortHash } from '../base/hash';
import { UsageError } from '../base/errors';
import { startProgress } from '../base/progress';
import { Random } from '../engine/random';
import { docHash, type OpenQuestion } from '../data';
import { bootstrapInterval } from '../metrics';
import { checkSampling } from '../model';
import type { LanguageModel } from '../pretrained';
import { requestKey } from './cache';
import { continueAll, type ContinueOptions, type Generated } from './continue';
import { drawExamples } from './few-shot';
import { recall, type BatchOptions } from './loglikelihood';
import { provenance } from './provenance';
import { standardError } from './result-metrics';
import { assemble, QUESTIONS_AT_ONCE, type ScoreOptions } from './score';
import type { GenerationRow, GenerationTask, Metric, Result } from './types';

/** What is to be continued, until one of some texts or so many tokens. */
export interface GenerationRequest {
  context: string;
  /** Texts that end an answer, whatever tokens make them up; they are not part of it. */
  until: readonly string[];
  maxNewTokens: number;
  /** What its samples depend on beside the seed; by default its tokens. */
  name?: string;
}

/** A greedy answer. */
export interface GeneratedText {
  text: string;
  /** Tokens that were generated for it, those of the text that ended it among them. */
  tokens: number;
  /** Tokens cut from the left of the context to make room. */
  truncated: number;
}

/** Sampled answers. */
export interface SampledTexts extends Generated {
  truncated: number;
}

/**
 * Continues texts greedily, as lm-evaluation-harness's `generate_until` does: cut at the first of the `until` texts or at
 * the model's end token.
 * @throws UsageError for a context without tokens, or when there is no room for so many new tokens
 */
export function generateUntil(
  model: LanguageModel,
  requests: readonly GenerationRequest[],
  options: BatchOptions = {},
): GeneratedText[] {
  const toAnswer = ({ texts, ids }: Generated) => ({ text: texts[0]!, tokens: ids[0]!.length });
  return answer(model, requests, {}, 'generate', toAnswer, options);
}

/**
 * Samples continuations of texts, cut as by `generateUntil`. What is sampled for a text depends on it, its name, the seed
 * and the options alone.
 * @throws UsageError as `generateUntil`, and for an option out of its range
 */
export function sampleUntil(
  model: LanguageModel,
  requests: readonly GenerationRequest[],
  sampling: ContinueOptions,
  options: BatchOptions = {},
): SampledTexts[] {
  checkSampling(sampling);
  const { samples = 1, seed = 0, temperature = 0, topK = 0, topP = 1, minP = 0, repetitionPenalty = 1 } = sampling;
  const kind = JSON.stringify(['sample', samples, seed, temperature, topK, topP, minP, repetitionPenalty]);
  return answer(model, requests, sampling, kind, (generated) => generated, options);
}

/** @param kind what, beside the request, the answer depends on */
function answer<A extends object>(
  model: LanguageModel,
  requests: readonly GenerationRequest[],
  sampling: ContinueOptions,
  kind: string,
  toAnswer: (generated: Generated) => A,
  options: BatchOptions,
): (A & { truncated: number })[] {
  const { tokenizer, config } = model;
  const asked = requests.map(({ context, until, maxNewTokens, name }) => {
    const room = config.maxPositions - maxNewTokens;
    if (room < 1) {
      throw new UsageError(`${maxNewTokens} new tokens leave no room for a prompt in ${config.maxPositions}`);
    }
    const all = tokenizer.encode(context);
    if (all.length === 0) throw new UsageError('an empty prompt cannot be continued');
    const ids = all.slice(-room);
    return { ids, until: until.filter((text) => text !== ''), maxNewTokens, name: name ?? ids.join(), truncated: all.length - ids.length }; // prettier-ignore
  });
  const keyOf = (i: number) => {
    const { ids, until, maxNewTokens } = asked[i]!;
    const { name } = requests[i]!;
    return requestKey(JSON.stringify([kind, until, maxNewTokens, ...(name === undefined ? [] : [name])]), ids);
  };
  const found = recall(options, asked.length, keyOf, (missing, found: (i: number, answer: A) => void, rest) => {
    const mine = missing.map((i) => asked[i]!);
    continueAll(model, mine, sampling, (j, generated) => {
      found(missing[j]!, toAnswer(generated));
      rest.progress?.add(1);
    });
  });
  return found.map((one, i) => ({ ...one, truncated: asked[i]!.truncated }));
}

export interface GenerationOptions extends Pick<ScoreOptions, 'cache'>, Partial<Pick<ScoreOptions, 'chat' | 'system'>> {
  /** Draws the examples and the resamples. */
  seed?: number;
  /** Resamples behind each 95 % interval; 0 for none. */
  resamples?: number;
}

/**
 * Has a model answer the questions of a task in its own words, greedily, and measures each of the task's metrics (by
 * default `exact_match`): its mean over items with standard error and bootstrap interval.
 * @throws UsageError for a task without questions
 */
export function evaluateGeneration(
  model: LanguageModel,
  task: GenerationTask,
  { seed = 0, resamples = 1000, chat = false, system, cache }: GenerationOptions = {},
): Result<GenerationRow> {
  if (task.docs.length === 0) throw new UsageError(`the task ${task.name} has no usable questions`);
  const started = performance.now();
  const { prompt, until, maxNewTokens, description = '', metrics = { exact_match: exactMatch() } } = task;
  const examples = drawExamples(task, Random.seed(seed).stream('few-shot'));
  const show = (doc: OpenQuestion) => ({ prompt: prompt(doc), answer: doc.answers[0]! });
  const progress = startProgress(`${task.name}, generating`, task.docs.length);
  const rows: GenerationRow[] = [];
  for (let from = 0; from < task.docs.length; from += QUESTIONS_AT_ONCE) {
    const mine = task.docs.slice(from, from + QUESTIONS_AT_ONCE);
    const contexts = mine.map((doc, i) =>
      assemble(
        model,
        { scoring: 'continuation', chat, system },
        description,
        examples[from + i]!.map(show),
        prompt(doc),
      ),
    );
    const asked = contexts.map((context) => ({ context, until, maxNewTokens }));
    generateUntil(model, asked, { cache, progress }).forEach(({ text, tokens, truncated }, i) => {
      const doc = mine[i]!;
      const answer = text.trim();
      rows.push({
        task: task.name,
        doc_id: doc.id,
        doc_hash: docHash(doc),
        prompt_hash: shortHash(contexts[i]!),
        answer,
        scores: Object.fromEntries(Object.entries(metrics).map(([name, of]) => [name, of(answer, doc)])),
        tokens,
        truncated,
      });
    });
  }
  progress.stop();
  const state = Random.seed(seed).stream('bootstrap').state;
  const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  const metric = (name: string): Metric => {
    const values = rows.map(({ scores }) => scores[name]!);
    const random = Random.seed(seed).at(state);
    const found = resamples > 0 ? bootstrapInterval(values, mean, { resamples, random }) : null;
    const interval: [number, number] | null = found && [found.low, found.high];
    return { value: mean(values), stderr: standardError(values), interval, higher_is_better: true };
  };
  return {
    ...provenance(model, task, seed),
    scoring: 'generate',
    normalisation: 'none',
    shots: task.fewShot?.shots ?? 0,
    ...(chat !== false && { chat: chat === true ? 'single' : chat }),
    ...(system !== undefined && { system }),
    calibration: 'uncalibrated',
    n: rows.length,
    truncated: rows.filter((row) => row.truncated > 0).length,
    skipped: task.skipped.length,
    invalid: 0,
    excluded: [],
    ties: 0,
    wall_seconds: (performance.now() - started) / 1000,
    metrics: Object.fromEntries(Object.keys(metrics).map((name) => [name, metric(name)])),
    bins: { confidence: [], classwise_total: [] },
    binning: {},
    rows,
  };
}

/** What two texts may differ in and still match exactly; the names are lm-evaluation-harness's. */
export interface ExactMatchOptions {
  ignore_case?: boolean | undefined;
  /** ASCII punctuation. */
  ignore_punctuation?: boolean | undefined;
  ignore_numbers?: boolean | undefined;
  /** Taken out first, in order. */
  regexes_to_ignore?: readonly string[] | undefined;
}

/**
 * Exact match (1 or 0) of an answer with one of a question's, as lm-evaluation-harness 0.4.x computes it, white space at
 * the ends aside.
 * @throws UsageError for a pattern that is not a regular expression
 */
export function exactMatch(options: ExactMatchOptions = {}): (answer: string, doc: OpenQuestion) => number {
  const { ignore_case, ignore_punctuation, ignore_numbers, regexes_to_ignore = [] } = options;
  const patterns = regexes_to_ignore.map((pattern) => {
    try {
      return new RegExp(pattern, 'g');
    } catch (error) {
      throw new UsageError(`"${pattern}" is not a regular expression`, { cause: error });
    }
  });
  const normalise = (text: string) => {
    let out = patterns.reduce((left, pattern) => left.replace(pattern, ''), text.trim());
    if (ignore_case) out = out.toLowerCase();
    if (ignore_punctuation) out = out.replace(/[!-/:-@[-`{-~]/g, '');
    return ignore_numbers ? out.replace(/\d/g, '') : out;
  };
  return (answer, { answers }) => {
    const mine = normalise(answer);
    return answers.some((right) => normalise(right) === mine) ? 1 : 0;
  };
}
