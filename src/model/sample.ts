import { CalmError, UsageError } from '../base/errors';
import { tf, type Tensor1D, type Tensor2D } from '../engine/backend';

/** What tokens are drawn from: softmax of the logits as these change them, in this order (that of transformers). */
export interface Sampling {
  /** Divides (positive) or multiplies (negative) the logits of tokens that the text already has; 1 for none. */
  repetitionPenalty?: number | undefined;
  /** 0 takes the most likely token. */
  temperature?: number | undefined;
  /** Only the k most likely tokens; 0 for all. */
  topK?: number | undefined;
  /** Only the smallest set of most likely tokens whose probabilities reach this sum. */
  topP?: number | undefined;
  /** Only tokens at least this share as likely as the most likely one. */
  minP?: number | undefined;
}

/** One token to be drawn. */
export interface Draw {
  /** Of the logits. */
  row: number;
  /** Uniform in [0, 1): where in the cumulative distribution. */
  u: number;
  /** What the text has so far, for the repetition penalty. */
  text: readonly number[];
}

export interface Drawn {
  id: number;
  /** log p of the token by the model itself: of softmax(logits), before any of `Sampling`. */
  logprob: number;
}

/** Tokens that are first chosen among together. */
const BLOCK = 256;
/** The most likely tokens, which a filter usually keeps fewer of. */
const RANKED = 512;

/** @throws UsageError for a value out of its range, which it names */
export function checkSampling({
  temperature = 0,
  topK = 0,
  topP = 1,
  minP = 0,
  repetitionPenalty = 1,
}: Sampling): void {
  const wrong = (name: string, value: number, wanted: string) => new UsageError(`${name} is ${value}, not ${wanted}`);
  if (!(temperature >= 0 && temperature < Infinity)) throw wrong('temperature', temperature, '0 or more');
  if (!Number.isSafeInteger(topK) || topK < 0) throw wrong('topK', topK, 'an integer of 0 (for all) or more');
  if (!(topP > 0 && topP <= 1)) throw wrong('topP', topP, 'above 0 and at most 1');
  if (!(minP >= 0 && minP <= 1)) throw wrong('minP', minP, 'between 0 and 1');
  if (!(repetitionPenalty > 0 && repetitionPenalty < Infinity)) throw wrong('repetitionPenalty', repetitionPenalty, 'above 0'); // prettier-ignore
}

/**
 * Draws tokens from rows of logits [rows, vocab]. What is drawn for a row follows from it and from `u` alone.
 * @throws CalmError for logits that are not numbers
 */
export function drawTokens(logits: Tensor2D, draws: readonly Draw[], sampling: Sampling): Drawn[] {
  const { temperature = 0, topK = 0, topP = 1, minP = 0, repetitionPenalty = 1 } = sampling;
  const penalised = repetitionPenalty === 1 ? undefined : penalise(logits, draws, repetitionPenalty);
  try {
    const scores = penalised ?? logits;
    const rows = penalised ? draws.map((_, i) => i) : draws.map(({ row }) => row);
    const us = draws.map(({ u }) => u);
    const filtered = topK > 0 || topP < 1 || minP > 0;
    const ids =
      temperature === 0
        ? mostLikely(scores, rows)
        : filtered
          ? fromFiltered(scores, rows, us, { temperature, topK: topK || Infinity, topP, minP })
          : fromAll(scores, rows, us, temperature);
    const logprobs = logprobsOf(logits, draws, ids);
    return ids.map((id, i) => ({ id, logprob: logprobs[i]! }));
  } finally {
    penalised?.dispose();
  }
}

/** One row of logits a draw, in which the tokens of its text are less likely. */
function penalise(logits: Tensor2D, draws: readonly Draw[], penalty: number): Tensor2D {
  const [, vocab] = logits.shape;
  const flat = logits.dataSync<'float32'>();
  const out = new Float32Array(draws.length * vocab);
  draws.forEach(({ row, text }, i) => {
    const mine = out.subarray(i * vocab, (i + 1) * vocab);
    mine.set(flat.subarray(row * vocab, (row + 1) * vocab));
    for (const id of new Set(text)) mine[id] = mine[id]! > 0 ? mine[id]! / penalty : mine[id]! * penalty;
  });
  return tf.tensor2d(out, [draws.length, vocab]);
}

function mostLikely(logits: Tensor2D, rows: readonly number[]): number[] {
  const best = tf.tidy(() => tf.argMax(logits, 1).dataSync<'int32'>());
  return rows.map((row) => best[row]!);
}

/** By the sums over blocks of tokens first, so that only one block of each row leaves the engine. */
function fromAll(logits: Tensor2D, rows: readonly number[], us: readonly number[], temperature: number): number[] {
  const [count, vocab] = logits.shape;
  const blocks = Math.ceil(vocab / BLOCK);
  const weights = tf.tidy(() => {
    const relative = tf.exp(tf.div(tf.sub(logits, tf.max(logits, 1, true)), temperature));
    const padded = blocks * BLOCK === vocab ? relative : tf.pad(relative, [[0, 0], [0, blocks * BLOCK - vocab]]); // prettier-ignore
    return tf.reshape(padded, [count * blocks, BLOCK]);
  });
  try {
    const sums = tf.tidy(() => tf.sum(weights, 1).dataSync<'float32'>());
    const places = rows.map((row, i) => {
      const mine = sums.subarray(row * blocks, (row + 1) * blocks);
      const total = mine.reduce((a, b) => a + b, 0);
      if (!(total > 0 && total < Infinity)) throw notNumbers();
      const { at, left } = find(mine, us[i]! * total);
      return { block: at, left };
    });
    const chosen = tf.tidy(
      () =>
      tf.gather(weights, tf.tensor1d(rows.map((row, i) => row * blocks + places[i]!.block), 'int32')).dataSync<'float32'>(), // prettier-ignore
    );
    return places.map(
      ({ block, left }, i) => block * BLOCK + find(chosen.subarray(i * BLOCK, (i + 1) * BLOCK), left).at,
    );
  } finally {
    weights.dispose();
  }
}

/** The first place at which the sum of weights exceeds `target`, or the last that has any; what is left of the target there. */
function find(weights: ArrayLike<number>, target: number): { at: number; left: number } {
  let left = target;
  let last = { at: 0, left: 0 };
  for (let at = 0; at < weights.length; at++) {
    const weight = weights[at]!;
    if (left < weight) return { at, left };
    if (weight > 0) last = { at, left: weight }; // only rounding gets to the end
    left -= weight;
  }
  return last;
}

type Filter = Required<Pick<Sampling, 'temperature' | 'topK' | 'topP' | 'minP'>>;

/** From what the filters keep of each row, the most likely token first. */
function fromFiltered(logits: Tensor2D, rows: readonly number[], us: readonly number[], filter: Filter): number[] {
  const { temperature, topK } = filter;
  const [, vocab] = logits.shape;
  const ranked = Math.min(vocab, RANKED);
  const { values, indices, totals } = tf.tidy(() => {
    const top = tf.topk(logits, ranked, true);
    const relative = tf.exp(tf.div(tf.sub(logits, tf.max(logits, 1, true)), temperature));
    return {
      values: top.values.dataSync<'float32'>(),
      indices: top.indices.dataSync<'int32'>(),
      totals: tf.sum(relative, 1).dataSync<'float32'>(),
    };
  });
  let flat: Float32Array | undefined;
  const found = new Map<number, Kept>();
  return rows.map((row, i) => {
    let kept = found.get(row);
    if (!kept) {
      if (!(totals[row]! > 0 && totals[row]! < Infinity)) throw notNumbers();
      const near = { scores: values.subarray(row * ranked, (row + 1) * ranked), ids: indices.subarray(row * ranked, (row + 1) * ranked) }; // prettier-ignore
      kept = keep(near, totals[row]!, filter, ranked === vocab || topK <= ranked);
      if (!kept) {
        flat ??= logits.dataSync<'float32'>();
        kept = keep(sorted(flat.subarray(row * vocab, (row + 1) * vocab)), totals[row]!, filter, true)!;
      }
      found.set(row, kept);
    }
    const { weights, ids } = kept;
    const sum = weights.reduce((a, b) => a + b, 0);
    return ids[find(weights, us[i]! * sum).at]!;
  });
}

interface Kept {
  weights: Float64Array;
  ids: Int32Array;
}

/**
 * What the filters keep of tokens from the most likely down.
 * @param total the sum over all tokens of exp((z - max) / T)
 * @param all whether no token beyond these can be kept
 * @returns undefined where one may
 */
function keep(
  { scores, ids }: { scores: Float32Array; ids: Int32Array },
  total: number,
  filter: Filter,
  all: boolean,
): Kept | undefined {
  const { temperature, topK, topP, minP } = filter;
  // topP adds up probabilities after topK, which so has to be among these.
  if (!all && topK < Infinity) return undefined;
  const most = Math.min(scores.length, topK);
  const weights = new Float64Array(most);
  let mass = 0;
  for (let i = 0; i < most; i++) mass += weights[i] = Math.exp((scores[i]! - scores[0]!) / temperature);
  const within = topK < Infinity ? mass : total;
  let size = 0;
  let sum = 0;
  while (size < most && (size === 0 || (sum < topP * within && weights[size]! >= minP))) sum += weights[size++]!;
  if (size === most && !all) return undefined;
  return { weights: weights.subarray(0, size), ids: ids.subarray(0, size) };
}

/** All tokens, from the most likely down; ties by id. */
function sorted(logits: Float32Array): { scores: Float32Array; ids: Int32Array } {
  const ids = Int32Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]! || a - b);
  return { scores: Float32Array.from(ids, (id) => logits[id]!), ids };
}

function logprobsOf(logits: Tensor2D, draws: readonly Draw[], ids: readonly number[]): Float32Array {
  const [, vocab] = logits.shape;
  return tf.tidy(() => {
    const sums = tf.logSumExp<Tensor1D>(logits, 1);
    const at = tf.tensor1d(draws.map(({ row }, i) => row * vocab + ids[i]!), 'int32'); // prettier-ignore
    const rows = tf.tensor1d(draws.map(({ row }) => row), 'int32'); // prettier-ignore
    return tf.sub(tf.gather(tf.reshape(logits, [-1]), at), tf.gather(sums, rows)).dataSync<'float32'>();
  });
}

function notNumbers(): CalmError {
  return new CalmError('cannot sample: the logits are not numbers', { remedy: 'check the weights' });
}
