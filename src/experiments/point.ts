import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { UsageError } from '../base/errors';
import { readJson, writeFile, toJson } from '../base/files';
import { codeVersion } from '../base/version';
import { fitTemperature, fitTokenTemperature, train, type TrainOptions } from '../calibrate';
import { questionPrompt, syntheticQuestions } from '../data';
import { Random } from '../engine';
import { evaluate, loadTask, openCache, withTemperature, writeResults, type Result } from '../evaluate';
import { loadModel, type LanguageModel } from '../pretrained';
import { readTraining, toExamples } from '../train/examples';
import type { LogEntry } from '../train/loop';
import { isTrained, type TsOptions } from './methods';
import type { Source } from './plan';
import { plainFile } from './points';
import type { Measured, Point, PointRow } from './types';

export interface RunPointOptions {
  /** Where the model's answers are kept; by default the project's cache. */
  cache?: string | undefined;
  /** Seconds between checkpoints of the training. */
  checkpointSeconds?: number | undefined;
}

/**
 * Does one point: trains where its method trains (continuing what was interrupted), then asks the validation and the test
 * questions. Writes `train/` (adapter, head, log), `validation/` and `test/` (results.json, rows.jsonl) into the folder.
 * @returns the row, whose cost is measured
 * @throws CalmError as `loadModel`, `train` and `evaluate`
 */
export async function runPoint(point: Point, folder: string, options: RunPointOptions = {}): Promise<PointRow> {
  const { method, seed, sources, evaluation } = point;
  const model = await loadModel(point.model, { weights: point.weights });
  const trained = isTrained(method) ? await trainPoint(model, point, folder, options) : undefined;
  const asked = trained?.model ?? model;
  const started = performance.now();
  const cache = openCache(asked, options.cache);
  const ask = async ({ task, ...from }: Source) =>
    evaluate(asked, await loadTask(task, { ...from, shots: evaluation.shots }), { ...evaluation, seed, cache });
  let [validation, test] = [await ask(sources.validation), await ask(sources.test)];
  cache.close();
  let temperature: PointRow['temperature'];
  if (method === 'ts') {
    temperature = await fitted(model, point, folder, validation);
    const { bins, resamples } = evaluation;
    validation = withTemperature(validation, temperature.applied, { bins, resamples });
    test = withTemperature(test, temperature.applied, { bins, resamples });
  }
  writeResults(path.join(folder, 'validation'), [validation]);
  writeResults(path.join(folder, 'test'), [test]);
  fs.rmSync(path.join(folder, 'train', 'checkpoints'), { recursive: true, force: true });
  const { id, setting, label, options: chosen, varied } = point;
  return {
    id,
    model: model.name,
    model_hash: model.hash,
    ...(asked.tuning && { adapter_hash: asked.tuning.adapterHash }),
    setting,
    label,
    method,
    options: chosen,
    varied,
    seed,
    ...(temperature && { temperature }),
    validation: measured(validation),
    test: measured(test),
    code_version: codeVersion(),
    engine: test.engine,
    cost: {
      // The clock of a process starts with it, so loading is counted too.
      wall_seconds: performance.now() / 1000 + (trained?.secondsBefore ?? 0),
      train_seconds: trained?.seconds ?? 0,
      evaluate_seconds: (performance.now() - started) / 1000,
      peak_memory_mib: Math.max(peakMemory(), trained?.memory ?? 0),
      tokens_trained: trained?.tokens ?? 0,
      host: os.hostname(),
      finished: new Date().toISOString(),
    },
  };
}

/** The temperature of a point, fitted as its options say. */
async function fitted(
  model: LanguageModel,
  { options, sources, seed, evaluation }: Point,
  folder: string,
  asked: Result,
) {
  const { fit: on, limit } = options as TsOptions;
  const ofOptions = ({ rows }: Result) => {
    const { status, applied_temperature } = fitTemperature(
      rows.map(({ logprobs, label }) => ({ logits: logprobs, label })),
    );
    return { status: status as string, applied: applied_temperature };
  };
  if (on === 'validation') return ofOptions(asked);
  const file = await trainingFile(sources.trainValidation!, path.join(folder, 'train-validation.jsonl'));
  const data = await readTraining(file, { limit });
  if (data.kind !== 'instructions') {
    throw new UsageError(`${file} holds questions, and ts is to be fitted on ${on} of instructions`, {
      remedy: 'fit it on "validation"',
    });
  }
  if (on === 'tokens') {
    const { maxPositions } = model.config;
    const { temperature } = fitTokenTemperature(model, toExamples(data, model.tokenizer, { format: 'letter', maxPositions }).examples); // prettier-ignore
    return { status: 'finite', applied: temperature };
  }
  const docs = syntheticQuestions(data.instructions, Random.seed(seed).stream('synthetic'));
  const task = { name: 'synthetic', version: 1, source: file, split: 'all', docs, skipped: [], prompt: questionPrompt };
  return ofOptions(await evaluate(model, task, { ...evaluation, seed, resamples: 0 }));
}

/** Trains in `train/`, going on where an earlier process of the same code has stopped. */
async function trainPoint(model: LanguageModel, point: Point, folder: string, { checkpointSeconds }: RunPointOptions) {
  const { method, seed, sources } = point;
  const out = path.join(folder, 'train');
  const runFile = path.join(out, 'run.json');
  const before = fs.existsSync(runFile)
    ? (readJson(runFile) as { identity?: { code_version?: string } }).identity?.code_version
    : undefined;
  // Steps of other code would not be those of this one.
  if (before !== codeVersion()) fs.rmSync(out, { recursive: true, force: true });
  const done = readLog(path.join(out, 'log.jsonl'));
  const tuned = await train(model, {
    ...point.options,
    method,
    seed,
    train: await trainingFile(sources.train!, path.join(folder, 'train.jsonl')),
    validation: await trainingFile(sources.trainValidation!, path.join(folder, 'train-validation.jsonl')),
    out,
    resume: before === codeVersion(),
    measure: false, // all of them are asked at the end
    ...(checkpointSeconds !== undefined && { checkpointSeconds }),
  } as TrainOptions);
  const { log } = tuned;
  // Steps that had been done and logged, but not yet kept by a checkpoint, are done again: their time is spent too.
  const secondsBefore = sum(done, ({ seconds }) => seconds);
  return {
    model: tuned,
    secondsBefore,
    seconds: sum(log, ({ seconds }) => seconds),
    tokens: Math.round(sum(log, ({ tokens_per_second, seconds }) => tokens_per_second * seconds)),
    memory: Math.max(0, ...log.map(({ memory_mib }) => memory_mib)),
  };
}

const sum = <T>(items: readonly T[], of: (item: T) => number) => items.reduce((total, item) => total + of(item), 0);

function readLog(file: string): LogEntry[] {
  if (!fs.existsSync(file)) return [];
  return fs
    .readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as LogEntry];
      } catch {
        return []; // the empty line at the end, or one that was cut
      }
    });
}

/** A file to train on: the source itself where it is one, else its questions written out. */
async function trainingFile(source: Source, file: string): Promise<string> {
  const plain = plainFile(source);
  if (plain !== undefined) return plain;
  const { task, ...from } = source;
  const { docs } = await loadTask(task, from);
  writeFile(file, docs.map((doc) => `${toJson(doc)}\n`).join(''));
  return file;
}

function measured({ n, task, split, metrics, bins }: Result): Measured {
  return { n, task, split, metrics, bins };
}

/** The largest resident size that this process has had, in MiB. */
function peakMemory(): number {
  try {
    const kib = /^VmHWM:\s*(\d+) kB/m.exec(fs.readFileSync('/proc/self/status', 'utf8'))?.[1];
    if (kib !== undefined) return Number(kib) / 1024;
  } catch {
    // not Linux
  }
  return process.resourceUsage().maxRSS / 1024;
}
