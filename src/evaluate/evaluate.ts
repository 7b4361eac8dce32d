import { UsageError } from '../base/errors';
import { codeVersion } from '../base/version';
import { Random } from '../engine/random';
import { applyTemperature } from '../calibrate';
import { docHash } from '../data';
import { argmax, softmax } from '../metrics';
import type { LanguageModel } from '../pretrained';
import { summariseRows } from './result-metrics';
import { scoreTask, type Scored, type ScoreOptions } from './score';
import type { Result, Row, Task } from './types';

export interface EvaluateOptions extends Partial<ScoreOptions> {
  bins?: number;
  seed?: number;
  /** Resamples behind each 95 % interval; 0 for none. */
  resamples?: number;
}

/**
 * Asks a model every question of a task and measures accuracy and calibration.
 * @returns one result with its rows; probabilities are a softmax over the options
 */
export async function evaluate(model: LanguageModel, task: Task, options: EvaluateOptions = {}): Promise<Result> {
  const { bins = 10, seed = 0, resamples = 1000, ...rest } = options;
  const score: ScoreOptions = { scoring: 'letter', normalisation: 'none', chat: false, batchTokens: 1024, ...rest };
  if (task.docs.length === 0) throw new UsageError(`the task ${task.name} has no usable questions`);
  const started = performance.now();
  const scored = scoreTask(model, task, score);
  const all = scored.map((s, i) => toRow(task, i, s, score));
  const rows = all.filter((row) => row.logprobs.every((lp) => Number.isFinite(lp)));
  if (rows.length === 0) throw new UsageError(`no score of the task ${task.name} is a number`);
  return {
    task: task.name,
    task_version: task.version,
    source: task.source,
    split: task.split,
    scoring: score.scoring,
    normalisation: score.normalisation,
    calibration: 'uncalibrated',
    model: model.name,
    model_hash: model.hash,
    code_version: codeVersion(),
    engine: `${model.engine.kind} ${model.engine.version}${model.engine.gpu ? ' (GPU)' : ''}`,
    seed,
    n: rows.length,
    truncated: rows.filter((row) => row.truncated > 0).length,
    skipped: task.skipped.length,
    invalid: all.length - rows.length,
    wall_seconds: (performance.now() - started) / 1000,
    ...summariseRows(rows, { bins, resamples, random: Random.seed(seed).stream('bootstrap') }),
    rows,
  };
}

function toRow(task: Task, i: number, { logprobs, promptHash, truncated }: Scored, { scoring }: ScoreOptions): Row {
  const doc = task.docs[i]!;
  const prediction = argmax(logprobs);
  return {
    task: task.name,
    doc_id: doc.id,
    doc_hash: docHash(doc),
    prompt_hash: promptHash,
    logprobs,
    probs: softmax(logprobs),
    label: doc.answer,
    prediction,
    correct: prediction === doc.answer,
    truncated,
    ...(scoring === 'continuation' && {
      prediction_norm: argmax(logprobs.map((lp, k) => lp / doc.choices[k]!.length)),
    }),
  };
}

/** The same answers with a temperature applied to the logits over options; predictions stay as they are. */
export function withTemperature(result: Result, temperature: number, options: EvaluateOptions = {}): Result {
  const { bins = 10, resamples = 1000 } = options;
  const rows = result.rows.map((row) => ({ ...row, probs: applyTemperature(row.logprobs, temperature) }));
  return {
    ...result,
    calibration: 'temperature',
    temperature,
    ...summariseRows(rows, { bins, resamples, random: Random.seed(result.seed).stream('bootstrap') }),
    rows,
  };
}
