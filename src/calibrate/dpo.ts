import { lengthBuckets } from '../data';
import { tf } from '../engine/backend';
import { Random } from '../engine/random';
import { map, type Tree } from '../engine/tree';
import { labelScores, pack, scoreContinuations, trainingPass, type Adapter, type Transformer } from '../model';
import type { Method } from '../train/loop';
import type { PreferencePair } from '../train/preferences';
import { dropoutOf, fixed, pace, shuffledEpochs, stateOf, type Context } from './context';
import { crossEntropy } from './criterion';
import { accumulate, atPositions } from './objective';
import type { MethodOptions } from './options';

/** What a batch of pairs gives. */
export interface DpoBatch {
  loss: number;
  /** By the adapter; the caller disposes of it. */
  theta?: Tree;
  /** Share of the pairs whose chosen answer has the higher reward, and the mean gap of rewards. */
  accuracy: number;
  margin: number;
}

/**
 * The DPO loss (Rafailov et al. 2023, Eq. 7), mean over pairs: -log sigmoid(beta [(log pi(chosen) - log ref(chosen)) -
 * (log pi(rejected) - log ref(rejected))]), where log pi is the sum over an answer's tokens and ref the model without the
 * adapter. A pair's prompt is computed once.
 */
export function dpoLoss(
  model: Transformer,
  adapter: Adapter,
  pairs: readonly PreferencePair[],
  {
    beta,
    wanted = true,
    dropout,
    batchTokens = 4096,
  }: { beta: number; wanted?: boolean; dropout?: { rate: number; seed: number } | undefined; batchTokens?: number },
): DpoBatch {
  const sizes = pairs.map((pair) => pair.prompt.length + pair.chosen.length + pair.rejected.length);
  let [loss, right, margins] = [0, 0, 0];
  let theta: Tree;
  lengthBuckets(sizes, { maxTokens: batchTokens }).batches.forEach((batch, i) => {
    const mine = batch.map((index) => pairs[index]!);
    const reference = scoreContinuations(
      model,
      mine.flatMap(({ prompt, chosen, rejected }) => [chosen, rejected].map((continuation) => ({ context: prompt, continuation }))), // prettier-ignore
    ).map(({ tokenLogProbs }) => sum(tokenLogProbs));
    const packed = pack(
      mine.map(({ prompt, chosen, rejected }) => ({
        ids: prompt,
        branches: [chosen, rejected].map((answer) => ({ after: prompt.length, ids: answer.slice(0, -1) })),
      })),
    );
    const at: number[] = [];
    const labels: number[] = [];
    const answers: number[] = []; // which of 2 x pairs each position belongs to
    mine.forEach(({ prompt, chosen, rejected }, row) => {
      let next = packed.starts[row]! + prompt.length;
      const trunk = next - 1;
      [chosen, rejected].forEach((answer, which) => {
        answer.forEach((token, t) => {
          at.push(t === 0 ? trunk : next + t - 1);
          labels.push(token);
          answers.push(2 * row + which);
        });
        next += answer.length - 1;
      });
    });
    const seeded = dropout && { rate: dropout.rate, seed: dropout.seed + i };
    const pass = trainingPass(model, adapter, packed, Int32Array.from(at), { dropout: seeded, forwardOnly: !wanted });
    try {
      const rows = { labels: Int32Array.from(labels), options: labels.map(() => Infinity), smoothing: new Float32Array(labels.length) }; // prettier-ignore
      const logps = labelScores(
        model,
        pass.hidden,
        labels.map((token, position) => ({ position, token })),
      );
      const policy = new Array<number>(2 * mine.length).fill(0);
      logps.forEach(({ logProb }, j) => (policy[answers[j]!]! += logProb));
      const gaps = mine.map((_, row) => {
        const reward = (k: number) => policy[k]! - reference[k]!;
        return beta * (reward(2 * row) - reward(2 * row + 1));
      });
      gaps.forEach((gap) => {
        loss += softplus(-gap) / pairs.length;
        margins += gap / pairs.length;
        right += gap > 0 ? 1 / pairs.length : 0;
      });
      if (wanted) {
        // d loss / d log pi(chosen) = -beta sigmoid(-gap), and the opposite for the rejected one.
        const pull = gaps.map((gap) => (beta / (1 + Math.exp(gap))) / pairs.length); // prettier-ignore
        const weights = Float32Array.from(answers, (k) => pull[k >> 1]! * (k % 2 === 0 ? 1 : -1));
        const { hidden } = atPositions(crossEntropy, model, pass.hidden, undefined, { ...rows, weights }, undefined);
        theta = accumulate(theta, pass.backward(hidden));
        hidden.dispose();
      }
    } finally {
      pass.dispose();
    }
  });
  return { loss, accuracy: right, margin: margins, ...(wanted && { theta }) };
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** log(1 + e^x) without overflow. */
const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** Direct preference optimisation of an adapter. */
export function dpo(
  { model, lora, adapter, options, identity }: Omit<Context<MethodOptions<'dpo'>>, 'train' | 'validation'>,
  train: readonly PreferencePair[],
  validation: readonly PreferencePair[],
): Method {
  const { batch, epochs, seed, beta, batchTokens } = options;
  const random = Random.seed(seed);
  const perEpoch = Math.ceil(train.length / batch);
  const order = shuffledEpochs(train.length, random.stream('train'));
  return {
    identity,
    steps: epochs * perEpoch,
    warmupSteps: Math.min(options.warmupEpochs, epochs) * perEpoch,
    variables: { adapter },
    groups: { adapter: { rate: options.rate, weightDecay: options.weightDecay } },
    optimiser: { optimiser: options.optimiser },
    clipNorm: options.clipNorm,
    passes: 1,
    step: (k, variables, onPass) => {
      const pairs = order(k * batch, Math.min(batch, train.length)).map((i) => train[i]!);
      const dropout = dropoutOf(lora, random, String(k));
      const found = dpoLoss(model, stateOf(lora, variables).adapter, pairs, { beta, batchTokens, dropout });
      onPass();
      return {
        direction: { adapter: found.theta },
        numbers: { loss: found.loss, reward_accuracy: found.accuracy, reward_margin: found.margin },
        tokens: sum(pairs.map((pair) => pair.prompt.length + pair.chosen.length + pair.rejected.length)),
        rows: `training rows ${pairs
          .slice(0, 3)
          .map(({ id }) => id)
          .join(', ')}, …`,
      };
    },
    project: (variables) => ({
      adapter: map(variables['adapter'], (leaf) => tf.clipByValue(leaf, -options.clip, options.clip)),
    }),
    describe: (n) => `loss ${fixed(n['loss'])}, rewards right ${fixed(n['reward_accuracy'])}, ${pace(n)}`,
    mostLoss: 100,
    validation: {
      every: perEpoch,
      measure: (variables) => {
        const some = validation.slice(0, 64);
        const { loss, accuracy } = dpoLoss(model, stateOf(lora, variables).adapter, some, {
          beta,
          batchTokens,
          wanted: false,
        });
        return { validation_loss: loss, validation_reward_accuracy: accuracy };
      },
    },
  };
}
