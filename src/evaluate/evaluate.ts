import { CalmError, UsageError } from '../base/errors';
import { pick } from '../base/pick';
import { Random } from '../engine/random';
import { applyTemperature } from '../calibrate';
import { docHash } from '../data';
import { argmax, softmax } from '../metrics';
import type { LanguageModel } from '../pretrained';
import { drawExamples } from './few-shot';
import { provenance } from './provenance';
import { summariseRows, summariseTopics } from './result-metrics';
import { scoreTask, type Scored, type ScoreOptions } from './score';
import type { Result, Row, Task } from './types';

export interface EvaluateOptions extends Partial<ScoreOptions> {
  bins?: number;
  /** Draws the examples and the resamples. */
  seed?: number;
  /** Whether a prompt that exceeds the model's context is cut from the left and counted (the default), or an error. */
  truncation?: 'count' | 'error';
  /** Resamples behind each 95 % interval; 0 for none. */
  resamples?: number;
}

const SCORINGS = { letter: true, cloze: true, continuation: true };
const NORMALISATIONS = { none: true, token: true, byte: true };

/**
 * Asks a model every question of a task, after its examples where it has some, and measures accuracy and calibration.
 * @returns one result with its rows; probabilities are a softmax over the options
 * @throws UsageError for a task without questions, an unknown scoring, or a normalisation that does not apply to it
 */
export async function evaluate(model: LanguageModel, task: Task, options: EvaluateOptions = {}): Promise<Result> {
  const { bins = 10, seed = 0, resamples = 1000, truncation = 'count', ...rest } = options;
  const score: ScoreOptions = { scoring: 'letter', normalisation: 'none', chat: false, batchTokens: 2048, ...rest };
  pick('scoring', score.scoring, SCORINGS);
  pick('normalisation', score.normalisation, NORMALISATIONS);
  if (score.scoring === 'letter' && score.normalisation !== 'none') {
    throw new UsageError('letters are not normalised, each is one token', { remedy: 'score by cloze instead' });
  }
  if (task.docs.length === 0) throw new UsageError(`the task ${task.name} has no usable questions`);
  const started = performance.now();
  const examples = drawExamples(task, Random.seed(seed).stream('few-shot'));
  const scored = scoreTask(model, task, examples, score);
  const cut = scored.filter(({ truncated }) => truncated > 0).length;
  if (truncation === 'error' && cut > 0) {
    throw new CalmError(`${cut} prompts of ${task.name} exceed the model's ${model.config.maxPositions} tokens`, {
      remedy: 'leave them out, or let them be cut',
    });
  }
  const all = scored.map((s, i) => toRow(task, i, s, score));
  const valid = all.map((row) => row.logprobs.every((lp) => Number.isFinite(lp)));
  const rows = all.filter((_, i) => valid[i]);
  if (rows.length === 0) {
    throw new CalmError(`no score of the task ${task.name} is a finite number`, {
      remedy: "check the model's weights, and whether its context has room for the options",
    });
  }
  const topics = summariseTopics(
    rows,
    task.docs.filter((_, i) => valid[i]).map(({ topic }) => topic),
  );
  const summary = summariseRows(rows, { bins, resamples, random: Random.seed(seed).stream('bootstrap') });
  return {
    ...provenance(model, task, seed),
    scoring: score.scoring,
    normalisation: score.normalisation,
    shots: task.fewShot?.shots ?? 0,
    ...(score.chat !== false && { chat: score.chat === true ? 'single' : score.chat }),
    ...(score.system !== undefined && { system: score.system }),
    calibration: 'uncalibrated',
    n: rows.length,
    truncated: rows.filter((row) => row.truncated > 0).length,
    skipped: task.skipped.length,
    invalid: all.length - rows.length,
    wall_seconds: (performance.now() - started) / 1000,
    ...summary,
    ...(topics && { topics: topics.topics, metrics: { ...summary.metrics, accuracy_by_topic: topics.mean } }),
    rows,
  };
}

function toRow(task: Task, i: number, scored: Scored, { scoring, normalisation }: ScoreOptions): Row {
  const { logprobs, raw, promptHash, truncated, continuations } = scored;
  const doc = task.docs[i]!;
  const prediction = argmax(logprobs);
  return {
    task: task.name,
    doc_id: doc.id,
    doc_hash: docHash(doc),
    prompt_hash: promptHash,
    logprobs,
    ...(normalisation !== 'none' && { raw_logprobs: raw }),
    probs: softmax(logprobs),
    label: doc.answer,
    prediction,
    correct: prediction === doc.answer,
    truncated,
    ...(scoring === 'continuation' &&
      continuations && {
        is_greedy: continuations.greedy,
        prediction_norm: argmax(raw.map((lp, k) => lp / [...continuations.texts[k]!].length)), // as Python counts
        prediction_bytes: argmax(raw.map((lp, k) => lp / Buffer.byteLength(continuations.texts[k]!))),
      }),
  };
}

/** The same answers with a temperature applied to the logits over options; predictions stay as they are. */
export function withTemperature(result: Result, temperature: number, options: EvaluateOptions = {}): Result {
  const { bins = 10, resamples = 1000 } = options;
  const rows = result.rows.map((row) => ({ ...row, probs: applyTemperature(row.logprobs, temperature) }));
  const summary = summariseRows(rows, {
    bins,
    resamples,
    random: Random.seed(result.seed).stream('bootstrap'),
    temperature,
  });
  return {
    ...result,
    calibration: 'temperature',
    temperature,
    ...summary,
    metrics: { ...result.metrics, ...summary.metrics }, // what is right, by topic too, is what it was
    rows,
  };
}
