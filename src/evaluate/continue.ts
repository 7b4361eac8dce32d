import { lengthBuckets } from '../data';
import { Random } from '../engine/random';
import { generate, type Sampling } from '../model';
import type { LanguageModel } from '../pretrained';

/** What is to be continued. */
export interface Asked {
  ids: readonly number[];
  /** Texts that end a continuation, whatever tokens make them up; they are not part of it. */
  until: readonly string[];
  maxNewTokens: number;
  /** What its random streams depend on, beside the seed: neither its place nor its neighbours. */
  name: string;
}

export interface ContinueOptions extends Sampling {
  /** Continuations of each; by default 1. */
  samples?: number | undefined;
  seed?: number | undefined;
}

/** The continuations of one prompt; the token or text that ended one is not part of its text. */
export interface Generated {
  texts: string[];
  /** All tokens but the model's end token; those of a text that ended it are among them. */
  ids: number[][];
  /** log p of each by the model itself, and of the end token where there is one. */
  logprobs: number[][];
}

/** Continuations of one prompt that are computed together, at most. */
const LANES = 64;

/**
 * Continues token ids in batches of similar length; a prompt is computed once for its continuations.
 * @param found is given each prompt's continuations when they are complete
 * @param onStep is told tokens of the batch that is at it, and texts done
 * @throws UsageError as `checkSampling`
 */
export function continueAll(
  model: LanguageModel,
  asked: readonly Asked[],
  { samples = 1, seed = 0, ...sampling }: ContinueOptions,
  found: (i: number, generated: Generated) => void,
  onStep: (step: number, texts: number) => void = () => undefined,
): void {
  const { tokenizer } = model;
  const random = Random.seed(seed).stream('generate');
  const stop = new Set(tokenizer.eosId === undefined ? [] : [tokenizer.eosId]);
  const ends = asked.map(({ until }) => until.filter((text) => text !== ''));
  const all = asked.map((): Generated => ({ texts: [], ids: [], logprobs: [] }));
  for (let from = 0; from < samples; from += LANES) {
    const count = Math.min(LANES, samples - from);
    const lengths = asked.map(({ ids, maxNewTokens }) => ids.length + count * maxNewTokens);
    for (const batch of lengthBuckets(lengths, { maxTokens: 8192, maxRows: 32 }).batches) {
      const mine = batch.map((i) => asked[i]!);
      const continued = generate(
        model,
        mine.map(({ ids }) => ids),
        {
          ...sampling,
          maxNewTokens: Math.max(...mine.map((one) => one.maxNewTokens)),
          samples: count,
          stop,
          random: (row, sample) => random.stream(`${mine[row]!.name}/${from + sample}`),
          isDone: (row, ids) => {
            if (ids.length >= mine[row]!.maxNewTokens) return true;
            const until = ends[batch[row]!]!;
            if (until.length === 0) return false;
            const text = tokenizer.decode(ids);
            return until.some((end) => text.includes(end));
          },
        },
        (step) => onStep(step, batch.length * count),
      );
      continued.forEach((texts, row) => {
        const i = batch[row]!;
        for (const { ids, logprobs } of texts) {
          all[i]!.ids.push(ids);
          all[i]!.logprobs.push(logprobs);
          all[i]!.texts.push(ends[i]!.reduce((text, end) => text.split(end)[0]!, tokenizer.decode(ids)));
        }
        if (all[i]!.texts.length === samples) found(i, all[i]!);
      });
    }
  }
}
