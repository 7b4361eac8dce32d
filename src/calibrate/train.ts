import * as fs from 'node:fs';
import * as path from 'node:path';
import { codeVersion } from '../base/version';
import { shortHash } from '../base/hash';
import { Random } from '../engine/random';
import { createAdapter } from '../model';
import type { LanguageModel } from '../pretrained';
import { readTraining, toExamples, type Examples } from '../train/examples';
import { runMethod, type LogEntry, type RunOptions } from '../train/loop';
import { calmMethod, type CalmVariables } from './calm';
import { parseOptions, type CalmOptions, type METHODS } from './options';
import { identityHead } from './head';
import { applyTuning, writeTuning, type TunedModel } from './tuned';

export interface TrainOptions extends RunOptions, Partial<CalmOptions> {
  method: keyof typeof METHODS;
  /** Files of questions or instructions, see `readTraining`. */
  train: string;
  validation: string;
}

/** A trained model, and how it came about. */
export interface TrainedModel extends TunedModel {
  log: LogEntry[];
  /** Rows that were not used: unusable, or beyond the model's context. */
  leftOut: { file: string; unusable: { line: number; reason: string }[]; tooLong: string[] }[];
}

/**
 * Trains a model by a method of calibration and gives the model with the result applied; progress is shown. With `out`,
 * writes run.json, log.jsonl and checkpoints there, and at the end the adapter (PEFT's format) and the head.
 * @throws UsageError for an unknown method or option, with the nearest names; CalmError as `runMethod` and `readTraining`
 */
export async function train(model: LanguageModel, options: TrainOptions): Promise<TrainedModel> {
  const {
    method: name,
    train: trainFile,
    validation: validationFile,
    out,
    resume,
    checkpointSeconds,
    ...rest
  } = options;
  const parsed = parseOptions(name, rest);
  const load = async (file: string) => {
    const data = await readTraining(file, parsed.limit === undefined ? {} : { limit: parsed.limit });
    const { format } = parsed;
    return { data, ...toExamples(data, model.tokenizer, { format, maxPositions: model.config.maxPositions }) };
  };
  const [training, validation] = [await load(trainFile), await load(validationFile)];
  const { rank, alpha, dropout, rankStabilised, targets, seed } = parsed;
  const lora = { rank, alpha, dropout, rankStabilised, targets };
  const start: CalmVariables = {
    head: identityHead(parsed.head === 'scalar' ? 1 : model.config.vocabSize),
    adapter: createAdapter(model.config, lora, Random.seed(seed).stream('adapter')).blocks,
  };
  const identity = {
    method: name,
    ...parsed,
    model: model.name,
    model_hash: model.hash,
    weights: model.weights,
    train: path.basename(trainFile),
    train_hash: hashFile(trainFile),
    validation: path.basename(validationFile),
    validation_hash: hashFile(validationFile),
    code_version: codeVersion(),
  };
  const data = { train: training.examples, validation: validation.examples, letters: lettersOf(training, validation) };
  const { variables, log } = runMethod(calmMethod(model, data, start, lora, parsed, identity), {
    out,
    resume: resume ?? false,
    ...(checkpointSeconds !== undefined && { checkpointSeconds }),
  });
  const { head, adapter: blocks } = variables as unknown as CalmVariables;
  const adapter = { config: lora, blocks };
  if (out !== undefined) writeTuning(out, adapter, head, model.config, model.name);
  const leftOut = [training, validation].map(({ data: { file, skipped }, tooLong }) => ({
    file,
    unusable: skipped,
    tooLong,
  }));
  return { ...applyTuning(model, adapter, head), log, leftOut };
}

/** The letters of the validation set, which is measured; of the training set where that has more. */
function lettersOf(training: Examples, validation: Examples): Int32Array | undefined {
  if (!validation.letters) return undefined;
  const [a, b] = [validation.letters, training.letters ?? new Int32Array()];
  return a.length >= b.length ? a : b;
}

function hashFile(file: string): string {
  return shortHash(fs.readFileSync(file));
}
