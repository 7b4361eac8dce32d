import { UsageError } from '../base/errors';
import { shortHash } from '../base/hash';
import { Random } from '../engine/random';
import { bootstrapInterval } from '../metrics';
import type { LanguageModel } from '../pretrained';
import type { ScoreRequest } from '../model';
import { loglikelihood, type BatchOptions } from './loglikelihood';
import { provenance } from './provenance';
import type { Metric, Result, TextRow, TextTask } from './types';

/**
 * log p of whole texts, natural. A text that exceeds the context is read in windows, each token once, the last window
 * with as much context as there is room for, as lm-evaluation-harness does. The first token follows the model's start
 * token (else its end token).
 * @returns per text, the log-probability and the tokens that it is the sum of (0 and 0 for an empty text)
 */
export function loglikelihoodRolling(
  model: LanguageModel,
  texts: readonly string[],
  options: BatchOptions = {},
): { logProb: number; tokens: number }[] {
  const prefix = model.tokenizer.bosId ?? model.tokenizer.eosId ?? 0;
  const encoded = texts.map((text) => model.tokenizer.encode(text, { addBos: false }));
  const requests = encoded.map((ids) => rollingWindows(ids, prefix, model.config.maxPositions));
  const found = loglikelihood(model, requests.flat(), { label: 'perplexity', ...options });
  let next = 0;
  return requests.map((windows, i) => {
    const logProb = windows.reduce((sum) => sum + found[next++]!.logProb, 0);
    return { logProb, tokens: encoded[i]!.length };
  });
}

/** Windows of at most `most` tokens that predict each id of a text once. */
export function rollingWindows(ids: readonly number[], prefix: number, most: number): ScoreRequest[] {
  const windows: ScoreRequest[] = [];
  for (let from = 0; from < ids.length; from += most) {
    const to = Math.min(from + most, ids.length);
    // The last of a window's tokens is only predicted, so `most` inputs end before it.
    const context = from === 0 ? [prefix] : ids.slice(Math.max(0, to - most - 1), from);
    windows.push({ context, continuation: ids.slice(from, to) });
  }
  return windows;
}

export interface PerplexityOptions extends BatchOptions {
  seed?: number;
  /** Resamples of the documents behind each 95 % interval; 0 for none. */
  resamples?: number;
}

/**
 * How well a model predicts the documents of a task: perplexity by word and by byte and bits per byte, whose words and
 * bytes are counted in the documents as they came, and perplexity by token. Intervals are over documents.
 * @throws UsageError for a task without text
 */
export function evaluateTexts(
  model: LanguageModel,
  task: TextTask,
  { seed = 0, resamples = 1000, ...batching }: PerplexityOptions = {},
): Result<TextRow> {
  const started = performance.now();
  const scored = loglikelihoodRolling(
    model,
    task.docs.map(({ text }) => text),
    { label: task.name, ...batching },
  );
  const all = task.docs.map(({ id, text, counted = text }, i): TextRow => ({
    task: task.name,
    doc_id: id,
    doc_hash: shortHash(text),
    logprob: scored[i]!.logProb,
    tokens: scored[i]!.tokens,
    words: counted.split(/\s+/).length,
    bytes: Buffer.byteLength(counted),
  }));
  const isScored = ({ logprob, tokens }: TextRow) => tokens > 0 && Number.isFinite(logprob);
  const rows = all.filter(isScored);
  const excluded = all
    .filter((row) => !isScored(row))
    .map(({ doc_id, tokens }) => ({ doc_id, reason: tokens > 0 ? 'its score is not a number' : 'it has no tokens' }));
  if (rows.length === 0) throw new UsageError(`the task ${task.name} has no text that can be scored`);
  const state = Random.seed(seed).stream('bootstrap').state;
  const metric = (of: (logprob: number, rows: readonly TextRow[]) => number): Metric => {
    const statistic = (sample: readonly TextRow[]) => of(sum(sample, 'logprob'), sample);
    const random = Random.seed(seed).at(state);
    const found = resamples > 0 ? bootstrapInterval(rows, statistic, { resamples, random }) : null;
    const interval: [number, number] | null = found && [found.low, found.high];
    return { value: statistic(rows), stderr: found?.standard_error ?? null, interval, higher_is_better: false };
  };
  return {
    ...provenance(model, task, seed),
    scoring: 'rolling',
    normalisation: 'none',
    shots: 0,
    calibration: 'uncalibrated',
    n: rows.length,
    truncated: 0,
    skipped: task.skipped.length,
    invalid: excluded.length,
    excluded,
    ties: 0,
    wall_seconds: (performance.now() - started) / 1000,
    metrics: {
      word_perplexity: metric((logprob, of) => Math.exp(-logprob / sum(of, 'words'))),
      byte_perplexity: metric((logprob, of) => Math.exp(-logprob / sum(of, 'bytes'))),
      bits_per_byte: metric((logprob, of) => -logprob / sum(of, 'bytes') / Math.LN2),
      token_perplexity: metric((logprob, of) => Math.exp(-logprob / sum(of, 'tokens'))),
    },
    bins: { confidence: [], classwise_total: [] },
    binning: {},
    rows,
  };
}

function sum(rows: readonly TextRow[], of: 'logprob' | 'words' | 'bytes' | 'tokens'): number {
  return rows.reduce((total, row) => total + row[of], 0);
}
