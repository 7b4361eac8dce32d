import { CalmError, someOf, UsageError } from '../base/errors';
import { pick } from '../base/pick';
import { Random } from '../engine/random';
import { applyPosthoc, applyTemperature, type PosthocFit } from '../calibrate';
import { docHash } from '../data';
import { argmax, softmax } from '../metrics';
import type { LanguageModel } from '../pretrained';
import { drawExamples } from './few-shot';
import { provenance } from './provenance';
import { countTies, summariseRows, summariseTopics } from './result-metrics';
import { scoreTask, type OptionScores, type ScoreOptions } from './score';
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
  const scored = await scoreTask(model, task, examples, score);
  const rows: Row[] = [];
  const excluded: Result['excluded'] = [];
  const topicOf: (string | undefined)[] = [];
  scored.forEach((answer, i) => {
    const { id, topic } = task.docs[i]!;
    if ('excluded' in answer) {
      excluded.push({ doc_id: id, reason: answer.excluded });
    } else {
      rows.push(toRow(task, i, answer, score));
      topicOf.push(topic);
    }
  });
  const cut = rows.filter(({ truncated }) => truncated > 0);
  if (truncation === 'error' && cut.length > 0) {
    const which = `${cut.length} prompts of ${task.name} (${someOf(cut.map(({ doc_id }) => doc_id))})`;
    throw new CalmError(`${which} exceed the model's ${model.config.maxPositions} tokens`, {
      remedy: 'leave them out, or let them be cut',
    });
  }
  if (rows.length === 0) {
    throw new CalmError(`no question of the task ${task.name} has a score: ${excluded[0]!.reason}`, {
      remedy: "check the model's weights, and whether its context has room for the options",
    });
  }
  const topics = summariseTopics(rows, topicOf);
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
    truncated: cut.length,
    skipped: task.skipped.length,
    invalid: excluded.length,
    excluded,
    ties: countTies(rows),
    wall_seconds: (performance.now() - started) / 1000,
    ...summary,
    ...(topics && { topics: topics.topics, metrics: { ...summary.metrics, accuracy_by_topic: topics.mean } }),
    rows,
  };
}

function toRow(task: Task, i: number, scored: OptionScores, { scoring, normalisation }: ScoreOptions): Row {
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

/**
 * The same answers through a post-hoc calibrator, as `fitPosthoc` fits it; another option may become the most likely.
 * @throws CalmError on a question with another number of options than the calibrator is for
 */
export function withPosthoc(result: Result, fitted: PosthocFit, options: EvaluateOptions = {}): Result {
  const { bins = 10, resamples = 1000 } = options;
  const rows = result.rows.map((row) => {
    const probs = applyPosthoc(fitted, { logits: row.logprobs });
    const prediction = argmax(probs);
    return { ...row, probs, prediction, correct: prediction === row.label };
  });
  const random = Random.seed(result.seed).stream('bootstrap');
  const summary = summariseRows(rows, { bins, resamples, random, temperature: null });
  const { topics: _topics, ...rest } = result; // of the answers as they were
  return { ...rest, calibration: fitted.method, ...summary, rows };
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
