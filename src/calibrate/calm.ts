import { tf } from '../engine/backend';
import { Random } from '../engine/random';
import { map, type Tree } from '../engine/tree';
import { accuracy, checkPredictions, confEce, nll, topLabel } from '../metrics';
import type { AdapterBlock, LoraConfig, Transformer } from '../model';
import { bomeStep, type BilevelProblem } from '../train/bome';
import type { Example } from '../train/examples';
import type { Method, Variables } from '../train/loop';
import { clipHead, type Head } from './head';
import { choiceLogits, objective } from './objective';
import type { CalmOptions } from './options';

/** What CALM learns from, as token ids. */
export interface CalmData {
  train: readonly Example[];
  validation: readonly Example[];
  /** The token of each letter, where the rows are questions answered by letter. */
  letters?: Int32Array | undefined;
}

/** The variables of a run: the head above (alpha), the adapter below (theta). */
export type CalmVariables = { head: Head; adapter: AdapterBlock[] };

/** Validation examples and their tokens measured at an epoch's end, at most. */
const MEASURED = { examples: 256, tokens: 2 ** 14 };

/**
 * CALM (the seed paper's Algorithm 1) as a method of the training loop: each step runs T inner steps on as many training
 * batches, takes BOME's direction for the head and the adapter, and updates both.
 * @param identity what else tells this run from another: model, files
 */
export function calmMethod(
  model: Transformer,
  { train, validation, letters }: CalmData,
  start: CalmVariables,
  lora: LoraConfig,
  options: CalmOptions,
  identity: Record<string, unknown>,
): Method {
  const { batch, innerSteps, epochs, seed } = options;
  const random = Random.seed(seed);
  // One outer step per T training batches, unless said otherwise: then each epoch sees the training set about once.
  const perEpoch = options.outerPerEpoch ?? Math.max(1, Math.ceil(train.length / (batch * Math.max(1, innerSteps))));
  const trainRows = stream(train.length, random.stream('train'));
  const validationRows = stream(validation.length, random.stream('validation'));
  const choices = options.space === 'choices' ? letters : undefined;
  const indexed = (rows: readonly Example[]) => (choices ? rows.map((row) => toChoices(row, choices)) : rows);
  const pick = (rows: readonly Example[], order: ReturnType<typeof stream>, from: number) =>
    indexed(order(from, Math.min(batch, rows.length)).map((i) => rows[i]!)); // a set smaller than a batch is the batch
  const stateOf = (alpha: Tree, theta: Tree) => ({
    head: alpha as Head,
    adapter: { config: lora, blocks: theta as AdapterBlock[] },
  });
  const common = { choices, reduction: options.reduction, batchTokens: options.batchTokens };

  const step: Method['step'] = (k, { head, adapter }, onPass) => {
    let tokens = 0;
    const inner = (t: number) => pick(train, trainRows, (k * Math.max(1, innerSteps) + t) * batch);
    const upper = pick(validation, validationRows, k * batch);
    const counted = (rows: readonly Example[]) => {
      tokens += rows.reduce((sum, { ids }) => sum + ids.length, 0);
      return rows;
    };
    // The same masks at theta and theta~ on one batch, so that their difference is the inner steps' doing.
    const dropout = (name: string) =>
      lora.dropout > 0
        ? { rate: lora.dropout, seed: random.stream(`dropout ${k} ${name}`).integer(2 ** 31 - 1) }
        : undefined;
    const problem: BilevelProblem = {
      lower: (alpha, theta, t, wanted) => {
        const state = stateOf(alpha, theta);
        const rows = counted(inner(t));
        const found = objective('cross-entropy', model, state, rows, wanted, { ...common, dropout: dropout(`${t}`) });
        onPass();
        return found;
      },
      upper: (alpha, theta) => {
        const both = { alpha: true, theta: true };
        const found = objective('entropy', model, stateOf(alpha, theta), counted(upper), both, common);
        onPass();
        return found;
      },
    };
    const { direction, ...found } = bomeStep(problem, head, adapter, {
      innerSteps,
      innerRate: options.lowerRate,
      gamma: options.gamma,
      residual: options.residual,
      barrier: options.barrier,
    });
    return {
      direction: { head: direction.alpha, adapter: direction.theta },
      numbers: {
        loss: found.innerLosses[0]!,
        inner_loss: found.innerLosses.at(-1)!,
        entropy: -found.upperLoss,
        lambda: found.lambda,
        residual: found.residual,
        residual_norm: Math.sqrt(found.residualNormSquared),
        dot: found.dot,
        ...displacement(head as Head),
      },
      tokens,
      rows: `training rows ${inner(0)
        .slice(0, 3)
        .map(({ id = '?' }) => id)
        .join(', ')}, …`,
    };
  };

  let measuredTokens = 0;
  const measured = validation.filter(
    ({ ids }, i) => i === 0 || (i < MEASURED.examples && (measuredTokens += ids.length) <= MEASURED.tokens),
  );
  const measure = ({ head, adapter }: Variables): Record<string, number> => {
    if (!letters) {
      const state = stateOf(head, adapter);
      const none = { alpha: false, theta: false };
      return { validation_nll: objective('cross-entropy', model, state, measured, none, common).loss };
    }
    const state = stateOf(head, adapter);
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

  return {
    identity,
    steps: epochs * perEpoch,
    warmupSteps: Math.min(options.warmupEpochs, epochs) * perEpoch,
    variables: start,
    groups: {
      // No decay on the head: it would pull d to 0, not to the identity.
      head: { rate: options.upperRate, weightDecay: 0 },
      adapter: { rate: options.lowerRate, weightDecay: options.weightDecay },
    },
    optimiser: { optimiser: options.optimiser },
    clipNorm: options.clipNorm,
    passes: innerSteps + 2,
    step,
    project: ({ head, adapter }) => ({
      head: tf.tidy(() => clipHead(head as Head)),
      adapter: map(adapter, (leaf) => tf.clipByValue(leaf, -options.clip, options.clip)),
    }),
    describe: (n) =>
      `loss ${fixed(n['loss'])}, entropy ${fixed(n['entropy'])}, lambda ${fixed(n['lambda'])}, ` +
      `|d-1| ${small(n['d_displacement'])}, |l| ${small(n['l_displacement'])}, ` +
      `${Math.round(n['tokens_per_second'] ?? 0)} tokens/s, ${Math.round(n['memory_mib'] ?? 0)} MiB`,
    mostLoss: 3 * Math.log(model.config.vocabSize),
    validation: { every: perEpoch, measure },
  };
}

const fixed = (value = NaN) => value.toFixed(2);
const small = (value = NaN) => value.toExponential(0);

/** How far the head is from the identity: the largest |d - 1| and |l|. */
function displacement({ d, l }: Head): { d_displacement: number; l_displacement: number } {
  const largest = (t: typeof d, from: number) =>
    tf.tidy(() => tf.max(tf.abs(tf.sub(t, from))).dataSync<'float32'>()[0]!);
  return { d_displacement: largest(d, 1), l_displacement: largest(l, 0) };
}

/** Rows `from` to `from + count` of an endless sequence of permutations of n rows: each epoch has its own. */
function stream(n: number, random: Random): (from: number, count: number) => number[] {
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

/** Labels as indices of the choice tokens. */
function toChoices(row: Example, choices: Int32Array): Example {
  return { ...row, labels: row.labels.map((label) => choices.indexOf(label)) };
}
