import { startProgress } from '../base/progress';
import { tf, type Tensor1D, type Tensor2D } from '../engine/backend';
import type { Random } from '../engine/random';
import type { Tree } from '../engine/tree';
import { lengthBuckets } from '../data';
import { accuracy, binIndex, checkPredictions, confEce, nll, topLabel } from '../metrics';
import {
  LOGIT_ROWS,
  pack,
  trainingPass,
  unembed,
  type AdapterBlock,
  type LoraConfig,
  type Transformer,
} from '../model';
import type { Example } from '../train/examples';
import type { Variables } from '../train/loop';
import { absentOptions, crossEntropy } from './criterion';
import type { Head } from './head';
import { choiceLogits, objective, type State } from './objective';
import type { CommonOptions } from './options';

/** What a training method is made from. */
export interface Context<O> {
  model: Transformer;
  train: readonly Example[];
  validation: readonly Example[];
  /** The token of each letter, where the rows are questions answered by letter. */
  letters?: Int32Array | undefined;
  lora: LoraConfig;
  /** The adapter's start values; the training loop owns them. */
  adapter: AdapterBlock[];
  options: O;
  /** What tells the run from another: method, options, data, model. */
  identity: Record<string, unknown>;
}

/** Variables of the loop as a model's state. */
export function stateOf(lora: LoraConfig, { head, adapter }: { head?: Tree; adapter?: Tree }): State {
  return {
    adapter: { config: lora, blocks: adapter as AdapterBlock[] },
    ...(head !== undefined && { head: head as Head }),
  };
}

/** The tokens that compete in the softmax, where they are not the whole vocabulary. */
export function choicesOf({ letters, options }: Context<CommonOptions>): Int32Array | undefined {
  return options.space === 'choices' ? letters : undefined;
}

/** The options' tokens, as indices of what competes; undefined where answers are not letters. */
export function amongOf({ letters, options }: Context<CommonOptions>): Int32Array | undefined {
  return letters && options.space === 'choices' ? letters.map((_, i) => i) : letters;
}

/**
 * Batches of an endless sequence of permutations of rows: each epoch has its own. Labels are indices of what competes.
 * A set smaller than a batch is the batch.
 */
export function batchesOf(
  rows: readonly Example[],
  size: number,
  random: Random,
  choices: Int32Array | undefined,
): (k: number) => Example[] {
  const order = shuffledEpochs(rows.length, random);
  return (k) =>
    order(k * size, Math.min(size, rows.length)).map((i) => {
      const row = rows[i]!;
      return choices ? { ...row, labels: row.labels.map((label) => choices.indexOf(label)) } : row;
    });
}

/** Rows `from` to `from + count` of an endless sequence of permutations of n rows. */
export function shuffledEpochs(n: number, random: Random): (from: number, count: number) => number[] {
  const epochs = new Map<number, number[]>();
  const epoch = (e: number) => {
    const known = epochs.get(e);
    if (known) return known;
    const order = random.stream(`epoch ${e}`).shuffle(Array.from({ length: n }, (_, i) => i));
    epochs.set(e, order);
    return order;
  };
  return (from, count) => Array.from({ length: count }, (_, i) => epoch(Math.floor((from + i) / n))[(from + i) % n]!);
}

/** Dropout masks of a pass, by its name; none without dropout. */
export function dropoutOf({ dropout }: LoraConfig, random: Random, name: string) {
  return dropout > 0 ? { rate: dropout, seed: random.stream(`dropout ${name}`).integer(2 ** 31 - 1) } : undefined;
}

/** Validation examples and their tokens measured at an epoch's end, at most. */
const MEASURED = { examples: 256, tokens: 2 ** 14 };

/** How well the validation examples are answered: accuracy, conf-ECE and NLL of letters, or the NLL of tokens. */
export function measureOn(context: Context<CommonOptions>): (variables: Variables) => Record<string, number> {
  const { model, validation, letters, lora, options } = context;
  const choices = choicesOf(context);
  let tokens = 0;
  const measured = validation.filter(
    ({ ids }, i) => i === 0 || (i < MEASURED.examples && (tokens += ids.length) <= MEASURED.tokens),
  );
  return (variables): Record<string, number> => {
    const state = stateOf(lora, variables);
    if (!letters) {
      const none = { alpha: false, theta: false };
      const { reduction, batchTokens } = options;
      const how = { choices, reduction, batchTokens };
      return { validation_nll: objective(crossEntropy, model, state, measured, none, how).loss };
    }
    const rows = choiceLogits(model, state, measured, letters, options.batchTokens);
    const labels = measured.map((row) => letters.indexOf(row.labels[0]!));
    const predictions = checkPredictions(rows.map((logits, i) => ({ logits, label: labels[i]! })));
    const { confidence, correct } = topLabel(predictions);
    return {
      validation_accuracy: accuracy(predictions),
      validation_conf_ece: confEce(confidence, correct),
      validation_nll: nll(predictions),
    };
  };
}

/** How sure a model is of each supervised token of an example, among the options where it has some, and whether it is right. */
export interface Sureness {
  confidence: number[];
  correct: boolean[];
}

/** The base model's sureness of every training example, before training; progress is shown. */
export function baseSureness({ model, train, letters, lora, adapter, options }: Context<CommonOptions>): Sureness[] {
  const out = new Array<Sureness>(train.length);
  const state = { config: lora, blocks: adapter }; // B is 0: the base model
  const index = letters && tf.tensor1d(letters, 'int32');
  const progress = startProgress('confidence before training', train.length);
  const lengths = train.map(({ ids }) => ids.length);
  for (const batch of lengthBuckets(lengths, { maxTokens: options.batchTokens }).batches) {
    const mine = batch.map((i) => train[i]!);
    const packed = pack(mine);
    const at = Int32Array.from(mine.flatMap(({ positions }, row) => positions.map((p) => packed.starts[row]! + p)));
    const labels = mine.flatMap((row) => row.labels);
    const counts = mine.flatMap((row) => row.labels.map(() => row.options ?? Infinity));
    const pass = trainingPass(model, state, packed, at, { forwardOnly: true });
    const confidence: number[] = [];
    const chosen: number[] = [];
    for (let from = 0; from < at.length; from += LOGIT_ROWS) {
      const to = Math.min(at.length, from + LOGIT_ROWS);
      const [top, best] = tf.tidy(() => {
        const z = unembed(model.parameters, tf.slice(pass.hidden, [from, 0], [to - from, -1]), letters);
        const absent = letters && absentOptions(counts.slice(from, to), to - from, letters.length);
        const p: Tensor2D = tf.softmax(absent ? tf.add<Tensor2D>(z, absent) : z);
        const best: Tensor1D = tf.argMax(p, 1);
        return [tf.max(p, 1), index ? tf.gather(index, best) : best] as [Tensor1D, Tensor1D];
      });
      confidence.push(...top.dataSync<'float32'>());
      chosen.push(...best.dataSync<'int32'>());
      tf.dispose([top, best]);
    }
    pass.dispose();
    let read = 0;
    mine.forEach((row, j) => {
      const span = [read, (read += row.labels.length)] as const;
      const correct = chosen.slice(...span).map((token, i) => token === labels[span[0] + i]);
      out[batch[j]!] = { confidence: confidence.slice(...span), correct };
    });
    progress.add(batch.length);
  }
  progress.stop();
  index?.dispose();
  return out;
}

/** The bin of a confidence, of `bins` equal ones; a float32 softmax may sum to a little more than 1. */
export const binOf = (confidence: number, bins: number) => binIndex(Math.min(1, confidence), bins);

/** The share of right answers in each of `bins` equal bins of confidence; NaN in one without any. */
export function binAccuracies(sureness: readonly Sureness[], bins: number): number[] {
  const [right, all] = [new Array<number>(bins).fill(0), new Array<number>(bins).fill(0)];
  for (const { confidence, correct } of sureness) {
    confidence.forEach((c, i) => {
      const bin = binOf(c, bins);
      all[bin]!++;
      if (correct[i]) right[bin]!++;
    });
  }
  return all.map((n, bin) => right[bin]! / n);
}

/** The first rows of a batch, for an error's sake. */
export const named = (rows: readonly Example[]) =>
  `rows ${rows
    .slice(0, 3)
    .map(({ id = '?' }) => id)
    .join(', ')}, …`;

/** Tokens of a batch. */
export const tokensOf = (rows: readonly Example[]) => rows.reduce((sum, { ids }) => sum + ids.length, 0);

export const fixed = (value = NaN) => value.toFixed(2);
export const small = (value = NaN) => value.toExponential(0);

/** The end of a line of progress. */
export const pace = (n: Record<string, number>) =>
  `${Math.round(n['tokens_per_second'] ?? 0)} tokens/s, ${Math.round(n['memory_mib'] ?? 0)} MiB`;
