import * as fs from 'node:fs';
import * as path from 'node:path';
import { shortHash } from '../base/hash';
import { codeVersion } from '../base/version';
import { Random } from '../engine/random';
import { dispose } from '../engine/tree';
import { createAdapter, type AdapterBlock } from '../model';
import type { LanguageModel } from '../pretrained';
import { readTraining, toExamples, type Examples } from '../train/examples';
import { runMethod, type LogEntry, type Method, type RunOptions } from '../train/loop';
import { readPreferences } from '../train/preferences';
import { calm } from './calm';
import { cft } from './cft';
import type { Context } from './context';
import { dpo } from './dpo';
import type { Head } from './head';
import { iterate } from './iterate';
import { ls } from './ls';
import { parseOptions, type CommonOptions, type MethodName, type MethodOptions } from './options';
import { reg } from './reg';
import { sft } from './sft';
import { applyTuning, writeTuning, type TunedModel } from './tuned';

type Options<M extends MethodName> = RunOptions & { method: M; train: string; validation: string } & Partial<
    MethodOptions<M>
  >;

/** A method with its options, and the files (of questions, instructions or preferences) that it learns from. */
export type TrainOptions = { [M in MethodName]: Options<M> }[MethodName];

/** A trained model, and how it came about. */
export interface TrainedModel extends TunedModel {
  log: LogEntry[];
  /** Rows that were not used: unusable, or beyond the model's context. */
  leftOut: { file: string; unusable: { line: number; reason: string }[]; tooLong: string[] }[];
}

/** The methods that learn from examples. */
const BY_EXAMPLES = { calm, sft, ls, cft, reg, iterate };

/**
 * Trains a model by a method and gives the model with the result applied; progress is shown. With `out`, writes run.json,
 * log.jsonl and checkpoints there, and at the end the adapter (PEFT's format) and the head, where there is one.
 * @throws UsageError for an unknown method or option, with the nearest names; CalmError as `runMethod`, `readTraining`
 *   and `readPreferences`
 */
export async function train(model: LanguageModel, options: TrainOptions): Promise<TrainedModel> {
  const {
    method: name,
    train: trainFile,
    validation: validationFile,
    out,
    resume,
    checkpointSeconds,
    measure,
    ...rest
  } = options;
  const parsed: CommonOptions = parseOptions(name, rest);
  const { rank, alpha, dropout, rankStabilised, targets, seed, limit, format } = parsed;
  const lora = { rank, alpha, dropout, rankStabilised, targets };
  const context = {
    model,
    lora,
    adapter: createAdapter(model.config, lora, Random.seed(seed).stream('adapter')).blocks,
    identity: {
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
    },
  };
  const files = [trainFile, validationFile];
  const { maxPositions } = model.config;
  const most = limit === undefined ? {} : { limit };
  let method: Method;
  let leftOut: TrainedModel['leftOut'];
  if (name === 'dpo') {
    const read = (file: string) => readPreferences(file, model.tokenizer, { maxPositions, ...most });
    const [training, validation] = [await read(trainFile), await read(validationFile)];
    method = dpo({ ...context, options: parsed as MethodOptions<'dpo'> }, training.pairs, validation.pairs);
    leftOut = [training, validation].map(({ file, skipped, tooLong }) => ({ file, unusable: skipped, tooLong }));
  } else {
    const read = async (file: string) => {
      const data = await readTraining(file, most);
      return { data, ...toExamples(data, model.tokenizer, { format, maxPositions }) };
    };
    const [training, validation] = [await read(trainFile), await read(validationFile)];
    const letters = lettersOf(training, validation);
    const examples = { train: training.examples, validation: validation.examples, letters };
    const make = BY_EXAMPLES[name] as (of: Context<CommonOptions>) => Method;
    method = make({ ...context, ...examples, options: parsed });
    leftOut = [training, validation].map(({ tooLong, data }, i) => ({ file: files[i]!, unusable: data.skipped, tooLong })); // prettier-ignore
  }
  const { variables, log } = runMethod(method, {
    out,
    resume: resume ?? false,
    ...(checkpointSeconds !== undefined && { checkpointSeconds }),
    ...(measure !== undefined && { measure }),
  });
  const { adapter: blocks, head, ...others } = variables;
  dispose(others);
  const adapter = { config: lora, blocks: blocks as AdapterBlock[] };
  if (out !== undefined) writeTuning(out, adapter, head as Head | undefined, model.config, model.name);
  return { ...applyTuning(model, adapter, head as Head | undefined), log, leftOut };
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
