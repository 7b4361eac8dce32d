import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { readJson, readJsonl } from '../base/files';
import { Random } from '../engine/random';
import { argmax, softmax } from '../metrics';
import { countTies, summariseRows } from './result-metrics';
import type { Result, Row } from './types';

/** A row of lm-evaluation-harness's `samples_<task>_<date>.jsonl`, of a multiple-choice task. */
const sample = z.object({
  doc_id: z.union([z.int(), z.string()]),
  target: z.union([z.string(), z.number()]),
  arguments: z.record(z.string(), z.object({ arg_0: z.string(), arg_1: z.string() })),
  filtered_resps: z.array(z.tuple([z.coerce.number(), z.union([z.boolean(), z.enum(['True', 'False'])])])).min(2),
  filter: z.string().default('none'),
  doc_hash: z.string().default(''),
  prompt_hash: z.string().default(''),
  acc: z.number(),
});
type Sample = z.output<typeof sample>;

/** What is read of `results_<date>.json`. */
const results = z.object({
  versions: z.record(z.string(), z.unknown()).default({}),
  'n-shot': z.record(z.string(), z.number()).default({}),
  lm_eval_version: z.string().default('of unknown version'),
  model_name: z.string().default('unknown model'),
});

/**
 * Reads what lm-evaluation-harness wrote with `--log_samples`, so that models which were evaluated elsewhere can be
 * calibrated: multiple-choice tasks, as results of `continuation` scoring.
 * @param file a `results_<date>.json`, whose `samples_<task>_<date>.jsonl` stand beside it, or one of the latter
 * @throws CalmError when there are no samples, or not one row of a file is a multiple-choice answer
 */
export async function importLmEval(file: string, { bins = 10, resamples = 1000, seed = 0 } = {}): Promise<Result[]> {
  const folder = path.dirname(file);
  const dated = /^(?:results|samples_(.+))_(\d{4}-.+)\.jsonl?$/.exec(path.basename(file));
  if (!dated) {
    throw new UsageError(`${file} is not named as lm-evaluation-harness names its files`, {
      remedy: 'name its results_<date>.json or samples_<task>_<date>.jsonl',
    });
  }
  const [, task, date] = dated;
  const summary = path.join(folder, `results_${date}.json`);
  const parsed = results.safeParse(task === undefined || fs.existsSync(summary) ? readJson(summary) : {});
  if (!parsed.success) throw new CalmError(`${summary} is not a results file of lm-evaluation-harness`);
  const names = fs.readdirSync(folder).flatMap((name) => {
    const [, found] = new RegExp(`^samples_(.+)_${date}\\.jsonl$`).exec(name) ?? [];
    return found !== undefined && (task === undefined || found === task) ? [found] : [];
  });
  if (names.length === 0) {
    throw new CalmError(`beside ${file} there are no samples_<task>_${date}.jsonl`, {
      remedy: 'run lm-evaluation-harness with --log_samples',
    });
  }
  const out: Result[] = [];
  for (const name of names.sort()) {
    const source = path.join(folder, `samples_${name}_${date}.jsonl`);
    const { rows, skipped } = await readSamples(source, name);
    const version = Number(parsed.data.versions[name]);
    out.push({
      task: name,
      task_version: Number.isFinite(version) ? version : 0,
      source,
      split: 'lm-eval',
      scoring: 'continuation',
      normalisation: 'none',
      shots: parsed.data['n-shot'][name] ?? 0,
      calibration: 'uncalibrated',
      model: parsed.data.model_name,
      model_hash: '',
      code_version: `lm-evaluation-harness ${parsed.data.lm_eval_version}`,
      engine: 'lm-evaluation-harness',
      seed,
      n: rows.length,
      truncated: 0,
      skipped,
      invalid: 0,
      excluded: [],
      ties: countTies(rows),
      wall_seconds: 0,
      ...summariseRows(rows, { bins, resamples, random: Random.seed(seed).stream('bootstrap') }),
      rows,
    });
  }
  return out;
}

async function readSamples(file: string, task: string): Promise<{ rows: Row[]; skipped: number }> {
  const rows: Row[] = [];
  let skipped = 0;
  let filter: string | undefined;
  for await (const { value } of readJsonl(file)) {
    const read = sample.safeParse(value);
    filter ??= read.data?.filter;
    if (read.success && read.data.filter !== filter) continue; // the same item again, filtered otherwise
    const row = read.success ? toRow(task, read.data) : undefined;
    if (row) rows.push(row);
    else skipped++;
  }
  if (rows.length === 0) {
    throw new CalmError(`${file} has no answers to multiple-choice questions that can be read`, {
      remedy: 'generated answers and perplexities cannot be calibrated this way',
    });
  }
  return { rows, skipped };
}

/** undefined where the right option cannot be told. */
function toRow(task: string, { doc_id, doc_hash, prompt_hash, ...rest }: Sample): Row | undefined {
  const texts = Object.values(rest.arguments).map(({ arg_1 }) => arg_1.replace(/^ /, ''));
  const logprobs = rest.filtered_resps.map(([logprob]) => logprob);
  const prediction = argmax(logprobs);
  const correct = rest.acc === 1;
  const label = labelOf(rest.target, texts, prediction, correct);
  if (label === undefined || texts.length < logprobs.length || !logprobs.every(Number.isFinite)) return undefined;
  return {
    task,
    doc_id: String(doc_id),
    doc_hash: doc_hash.slice(0, 16),
    prompt_hash: prompt_hash.slice(0, 16),
    logprobs,
    probs: softmax(logprobs),
    label,
    prediction,
    correct,
    truncated: 0,
    is_greedy: rest.filtered_resps.map(([, greedy]) => greedy === true || greedy === 'True'),
    ...(new Set(texts).size === texts.length && {
      prediction_norm: argmax(logprobs.map((lp, k) => lp / [...texts[k]!].length)),
      prediction_bytes: argmax(logprobs.map((lp, k) => lp / Buffer.byteLength(texts[k]!))),
    }),
  };
}

/**
 * The right option. `target` is its index or its text, as the task has it; which of the two, its own verdict tells. With
 * partial scoring (WinoGrande) it is neither, but of two options the verdict says which.
 */
function labelOf(target: string | number, texts: string[], prediction: number, correct: boolean): number | undefined {
  if (correct) return prediction;
  const index = Number(target);
  const candidates = [
    ...(Number.isInteger(index) && index >= 0 && index < texts.length ? [index] : []),
    ...(texts.includes(String(target)) && new Set(texts).size === texts.length ? [texts.indexOf(String(target))] : []),
  ].filter((candidate) => candidate !== prediction);
  if (candidates.length > 0) return new Set(candidates).size === 1 ? candidates[0] : undefined;
  return texts.length === 2 ? 1 - prediction : undefined;
}
