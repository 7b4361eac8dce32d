import { lengthBuckets } from '../data';
import { tf, type Tensor2D } from '../engine/backend';
import { forward, LOGIT_ROWS, pack, unembed, type Transformer } from '../model';
import type { Example } from '../train/examples';

export interface TokenTemperature {
  /** The minimiser in [0.1, 10]; a value at a bound means that the minimum lies beyond it. */
  temperature: number;
  nll_before: number;
  nll_after: number;
  /** Supervised tokens that it was fitted on. */
  tokens: number;
}

const [LOW, HIGH] = [0.1, 10];
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/**
 * The temperature that minimises the mean NLL of the supervised tokens over the whole vocabulary: temperature scaling
 * where there are no options, as on instruction data (the paper's out-of-domain setting). The NLL has one minimum in T,
 * so a golden-section search over log T finds it, to 1e-3.
 */
export function fitTokenTemperature(model: Transformer, examples: readonly Example[]): TokenTemperature {
  const { hidden, labels } = supervised(model, examples);
  const nll = (temperature: number): number => {
    let sum = 0;
    for (let from = 0; from < labels.length; from += LOGIT_ROWS) {
      const mine = labels.slice(from, from + LOGIT_ROWS);
      sum += tf.tidy(() => {
        const logits = unembed(model.parameters, tf.slice(hidden, [from, 0], [mine.length, -1]));
        const logp = tf.logSoftmax(tf.div<Tensor2D>(logits, temperature));
        const at = tf.tensor2d(
          mine.flatMap((label, i) => [i, label]),
          [mine.length, 2],
          'int32',
        );
        return -tf.sum(tf.gatherND(logp, at)).dataSync<'float32'>()[0]!;
      });
    }
    return sum / labels.length;
  };
  try {
    let [low, high] = [Math.log(LOW), Math.log(HIGH)];
    let [a, b] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
    let [fa, fb] = [nll(Math.exp(a)), nll(Math.exp(b))];
    while (high - low > 1e-3) {
      if (fa <= fb) {
        [high, b, fb] = [b, a, fa];
        a = high - GOLDEN * (high - low);
        fa = nll(Math.exp(a));
      } else {
        [low, a, fa] = [a, b, fb];
        b = low + GOLDEN * (high - low);
        fb = nll(Math.exp(b));
      }
    }
    const temperature = Math.exp((low + high) / 2);
    return { temperature, nll_before: nll(1), nll_after: nll(temperature), tokens: labels.length };
  } finally {
    hidden.dispose();
  }
}

/** Normed hidden states at every supervised position, [p, hidden], and the labels there. */
function supervised(model: Transformer, examples: readonly Example[]): { hidden: Tensor2D; labels: number[] } {
  const labels: number[] = [];
  const lengths = examples.map(({ ids }) => ids.length);
  const hidden = tf.tidy(() =>
    tf.concat(
      lengthBuckets(lengths, { maxTokens: 2048 }).batches.map((batch) => {
        const rows = batch.map((i) => examples[i]!);
        const packed = pack(rows);
        labels.push(...rows.flatMap((row) => row.labels));
        const at = rows.flatMap(({ positions }, r) => positions.map((p) => packed.starts[r]! + p));
        return forward(model.config, model.parameters, packed, Int32Array.from(at)).hidden;
      }),
    ),
  );
  return { hidden, labels };
}
