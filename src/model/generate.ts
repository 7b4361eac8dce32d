import type { Random } from '../engine/random';
import { disposeCache } from './cache';
import { advance, keepRows, openLanes, packLanes, type Lanes, type Step } from './lanes';
import { pack } from './packed';
import { checkSampling, drawTokens, type Sampling } from './sample';
import { forward, unembed, type Transformer } from './transformer';

export interface GenerateOptions extends Sampling {
  maxNewTokens: number;
  /** Continuations of each prompt, which is computed once for all of them; by default 1. */
  samples?: number | undefined;
  /** A stream for each continuation, so that a text does not depend on its neighbours. Needed above temperature 0. */
  random?: ((prompt: number, sample: number) => Random) | undefined;
  /** Tokens that end a text; they are not part of it. */
  stop?: ReadonlySet<number> | undefined;
  /** Whether a text is long enough. */
  isDone?: ((prompt: number, ids: readonly number[], sample: number) => boolean) | undefined;
}

/** New tokens after a prompt. */
export interface Continued {
  ids: number[];
  /** log p of each token by the model itself, whatever it was sampled from. */
  logprobs: number[];
  /** Whether a stop token ended it; its log p then follows those of the tokens. */
  stopped: boolean;
}

/**
 * Continues each prompt (none empty) token by token, `samples` times. Texts that have ended are not computed on.
 * @returns the continuations of each prompt, of at most `maxNewTokens` tokens
 * @throws UsageError as `checkSampling`; CalmError for logits that are not numbers; RangeError for an empty prompt
 */
export function generate(
  model: Transformer,
  prompts: readonly (readonly number[])[],
  options: GenerateOptions,
  onStep: (done: number) => void = () => undefined,
): Continued[][] {
  checkSampling(options);
  const { config, parameters } = model;
  const { maxNewTokens, samples = 1, temperature = 0, random, stop, isDone } = options;
  const streams = prompts.map((_, p) => Array.from({ length: samples }, (__, s) => random?.(p, s)));
  if (temperature > 0 && streams.flat().includes(undefined)) throw new RangeError('sampling needs random streams');
  const out = prompts.map(() => Array.from({ length: samples }, (): Continued => ({ ids: [], logprobs: [], stopped: false }))); // prettier-ignore
  if (prompts.length === 0 || maxNewTokens < 1 || samples < 1) return out;

  let lanes: Lanes | undefined;
  try {
    const packed = pack(prompts.map((ids) => ({ ids })));
    const last = Int32Array.from(packed.starts, (start, row) => start + prompts[row]!.length - 1);
    let { hidden, cache } = forward(config, parameters, packed, last, { keep: true });
    lanes = openLanes(cache!, prompts.map(({ length }) => length)); // prettier-ignore
    /** Of each lane that waits for a token: its row of `lanes`, and the row of `hidden` that the token is drawn from. */
    let waiting = prompts.flatMap((_, p) => Array.from({ length: samples }, (__, lane) => ({ row: p, lane, from: p })));
    for (let step = 0; ; step++) {
      const logits = unembed(parameters, hidden);
      hidden.dispose();
      const draws = waiting.map(({ row, lane, from }) => {
        const prompt = lanes!.prompts[row]!;
        const u = streams[prompt]![lane]?.uniform() ?? 0;
        return { row: from, u, text: [...prompts[prompt]!, ...out[prompt]![lane]!.ids] };
      });
      let drawn;
      try {
        drawn = drawTokens(logits, draws, options);
      } finally {
        logits.dispose();
      }
      onStep(step + 1);
      const steps: Step[][] = lanes.prompts.map(() => []);
      waiting.forEach(({ row, lane }, i) => {
        const prompt = lanes!.prompts[row]!;
        const mine = out[prompt]![lane]!;
        const { id, logprob } = drawn[i]!;
        mine.logprobs.push(logprob);
        if (stop?.has(id)) return void (mine.stopped = true);
        mine.ids.push(id);
        if (!isDone?.(prompt, mine.ids, lane)) steps[row]!.push({ lane, id });
      });
      if (step + 1 === maxNewTokens || steps.every(({ length }) => length === 0)) return out;
      lanes = keepRows(lanes, steps.flatMap(({ length }, row) => (length > 0 ? [row] : []))); // prettier-ignore
      const going = steps.filter(({ length }) => length > 0);
      const next = packLanes(lanes, going, step);
      const all = Int32Array.from({ length: next.n }, (_, i) => i);
      const before = lanes.cache;
      ({ hidden, cache } = forward(config, parameters, next, all, { cache: before, keep: true }));
      disposeCache(before);
      lanes = advance(lanes, cache!, going);
      waiting = going.flatMap((row, r) => row.map(({ lane }, i) => ({ row: r, lane, from: next.starts[r]! + i })));
    }
  } finally {
    disposeCache(lanes?.cache);
  }
}
