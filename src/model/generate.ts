import { CalmError } from '../base/errors';
import type { Random } from '../engine/random';
import { tf } from '../engine/backend';
import { disposeCache } from './cache';
import { pack } from './packed';
import type { Transformer } from './transformer';
import { forward, unembed, type KeyValueCache } from './transformer';

export interface GenerateOptions {
  maxNewTokens: number;
  /** 0 takes the most likely token; above, tokens are sampled from softmax(logits / temperature). */
  temperature?: number;
  /** Sample from the smallest set of tokens whose probabilities reach this sum. */
  topP?: number;
  /** One stream per prompt, so that a prompt's text does not depend on its neighbours. Needed above temperature 0. */
  random?: readonly Random[];
  /** Tokens that end a sequence; they are not part of the result. */
  stop?: ReadonlySet<number>;
  /** Whether a prompt's new tokens are enough. */
  isDone?: (prompt: number, ids: readonly number[]) => boolean;
}

/**
 * Continues each prompt (none empty) token by token, with a key-value cache. Finished sequences are computed on to the
 * end of their batch, so put prompts of similar length together.
 * @returns the new token ids of each prompt, at most `maxNewTokens`
 */
export function generate(
  model: Transformer,
  prompts: readonly (readonly number[])[],
  options: GenerateOptions,
  onStep: (done: number) => void = () => undefined,
): number[][] {
  const { maxNewTokens, stop = new Set<number>(), isDone = () => false } = options;
  const out = prompts.map((): number[] => []);
  const running = prompts.map(() => true);
  let inputs: readonly (readonly number[])[] = prompts;
  let cache: KeyValueCache | undefined;
  try {
    for (let step = 0; step < maxNewTokens && running.some(Boolean); step++) {
      const packed = pack(
        inputs.map((ids) => ({ ids })),
        cache?.past,
      );
      const last = Int32Array.from(packed.starts, (start, row) => start + inputs[row]!.length - 1);
      const result = forward(model.config, model.parameters, packed, last, { cache, keep: true });
      disposeCache(cache);
      cache = result.cache;
      const logits = unembed(model.parameters, result.hidden);
      let next: number[];
      try {
        next = choose(logits, options);
      } finally {
        tf.dispose([logits, result.hidden]);
      }
      next.forEach((id, row) => {
        if (stop.has(id)) running[row] = false;
        if (!running[row]) return;
        out[row]!.push(id);
        if (isDone(row, out[row]!)) running[row] = false;
      });
      inputs = next.map((id) => [id]);
      onStep(step + 1);
    }
  } finally {
    disposeCache(cache);
  }
  return out;
}

/** The next token of each row of logits [rows, vocab]. */
function choose(logits: ReturnType<typeof unembed>, { temperature = 0, topP = 1, random }: GenerateOptions): number[] {
  if (temperature === 0) {
    const best = tf.argMax(logits, 1);
    const ids = Array.from(best.dataSync<'int32'>());
    best.dispose();
    return ids;
  }
  const [rows, vocab] = logits.shape;
  const flat = logits.dataSync<'float32'>();
  return Array.from({ length: rows }, (_, row) => {
    const stream = random?.[row];
    if (!stream) throw new RangeError('sampling needs one random stream per prompt');
    return sample(flat.subarray(row * vocab, (row + 1) * vocab), temperature, topP, stream.uniform());
  });
}

/** The token at `u` in [0, 1) of the cumulative distribution over the nucleus, the most likely token first. */
function sample(logits: Float32Array, temperature: number, topP: number, u: number): number {
  let top = -Infinity;
  for (const z of logits) if (z > top) top = z;
  let total = 0;
  const weights = new Float64Array(logits.length);
  for (let i = 0; i < logits.length; i++) total += weights[i] = Math.exp((logits[i]! - top) / temperature);
  if (!(total > 0)) throw new CalmError('cannot sample: the logits are not numbers', { remedy: 'check the weights' });
  // What is a millionth of a millionth as likely as the rest together is left out of the sorting, not of the sum.
  const likely = [...weights.keys()]
    .filter((i) => weights[i]! > total * 1e-12)
    .sort((a, b) => weights[b]! - weights[a]! || a - b);
  let nucleus = 0;
  let size = 0;
  while (size < likely.length && (size === 0 || nucleus < topP * total)) nucleus += weights[likely[size++]!]!;
  let left = u * nucleus;
  for (let i = 0; i < size; i++) if ((left -= weights[likely[i]!]!) < 0) return likely[i]!;
  return likely[size - 1]!;
}
