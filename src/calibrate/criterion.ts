import { tf, type Tensor, type Tensor1D, type Tensor2D } from '../engine/backend';

/** What is known of the positions that a loss is taken at. */
export interface Rows {
  /** What each counts; a loss is the weighted sum. [p] */
  weights: Tensor1D;
  /** The right token of each: an index into what competes. */
  labels?: Int32Array | undefined;
  /** How many of a criterion's `among` are options of each; all when absent. */
  options?: readonly number[] | undefined;
  /** What share of its probability each label gives away (label smoothing), for `smoothed`. */
  smoothing?: Float32Array | undefined;
}

/** A predictive distribution over what competes, [p, V]: log p and p. */
export interface Distribution {
  logp: Tensor2D;
  p: Tensor2D;
}

/** A scalar loss and its gradient by the scores u [p, V] behind the distribution, p = softmax(u). */
export interface Loss {
  value: Tensor;
  u: Tensor2D;
}

/** A loss of predictive distributions, in nats unless said otherwise, in log space: extreme scores give finite values. */
export type Criterion = (distribution: Distribution, rows: Rows) => Loss;

/** CE(y, p) = -log p_y; du = p - onehot(y). */
export const crossEntropy: Criterion = ({ logp, p }, { weights, labels }) => {
  const at = entries(labels!);
  return {
    value: tf.neg(tf.sum(tf.mul(weights, tf.gatherND(logp, at)))),
    u: tf.sub(tf.mul(p, column(weights)), tf.scatterND(at, weights, p.shape)),
  };
};

/** -H(p) = sum p log p, with 0 log 0 = 0; du = p (log p + H). */
export const negativeEntropy: Criterion = ({ logp, p }, { weights }) => {
  // 0 where p underflows: p log p is then 0 * -large, which is 0 already, but -Infinity would make it NaN.
  const plogp = tf.mul(p, tf.maximum(logp, -1e30));
  const negative = tf.sum(plogp, 1, true); // [p, 1], minus the entropy
  return {
    value: tf.sum(tf.mul(weights, tf.reshape(negative, [-1]))),
    u: tf.mul(tf.sub(plogp, tf.mul(p, negative)), column(weights)),
  };
};

/** log p_k = -CE(k, p) of the most likely token k, taken as given; du = onehot(k) - p. */
export const negativeSelfLabel: Criterion = ({ logp, p }, { weights }) => {
  const top = tf.argMax(p, 1);
  const at = tf.stack([tf.range(0, p.shape[0], 1, 'int32'), top], 1) as Tensor2D;
  return {
    value: tf.sum(tf.mul(weights, tf.gatherND(logp, at))),
    u: tf.sub(tf.scatterND(at, weights, p.shape), tf.mul(p, column(weights))),
  };
};

/**
 * Cross-entropy with the label's probability 1 - e, the rest e spread evenly over the other options; du = p - q.
 * @param among the tokens that are options, as indices of what competes, the first `Rows.options` of them in each row;
 *   all that competes when absent
 */
export const smoothed =
  (among?: Int32Array): Criterion =>
  ({ logp, p }, { weights, labels, options, smoothing }) => {
    const [rows, size] = p.shape;
    if (!among) {
      const each = tf.div(tf.tensor1d(smoothing!), size - 1);
      const rest = tf.sub(tf.sub(1, tf.tensor1d(smoothing!)), each); // what the label has beyond the others
      const at = entries(labels!);
      const sum = tf.add(tf.mul(each, tf.sum(logp, 1)), tf.mul(rest, tf.gatherND(logp, at)));
      const q = tf.add(column(each), tf.scatterND(at, rest as Tensor1D, p.shape));
      return {
        value: tf.neg(tf.sum(tf.mul(weights, sum))),
        u: tf.mul<Tensor2D>(tf.sub(p, q), column(weights)),
      };
    }
    const at: [number, number][] = [];
    const shares: number[] = [];
    for (let row = 0; row < rows; row++) {
      const count = Math.min(options?.[row] ?? Infinity, among.length);
      const e = smoothing![row]!;
      for (const token of among.subarray(0, count)) {
        at.push([row, token]);
        shares.push(token === labels![row] ? 1 - e : e / (count - 1));
      }
    }
    const where = tf.tensor2d(at, [at.length, 2], 'int32');
    const share = tf.mul<Tensor1D>(tf.tensor1d(shares), tf.gather(weights, tf.tensor1d(at.map(([row]) => row), 'int32'))); // prettier-ignore
    return {
      value: tf.neg(tf.sum(tf.mul(share, tf.gatherND(logp, where)))),
      u: tf.sub(tf.mul(p, column(weights)), tf.scatterND(where, share, p.shape)),
    };
  };

/** The top confidence at each row, and whether it is the label's. */
export interface Seen {
  confidence: Float32Array;
  correct: boolean[];
}

/**
 * (c - target)^2, c the probability of the most likely option: confidence drawn towards what it should be, from above and
 * from below. du = 2 (c - target) c (onehot(k) - r), r the distribution over the options.
 * @param targetOf the targets of confidences, taken as constants
 * @param among as for `smoothed`
 */
export const confidenceTowards =
  (targetOf: (seen: Seen) => ArrayLike<number>, among?: Int32Array): Criterion =>
  ({ logp, p }, { weights, labels, options }) => {
    const [rows, size] = p.shape;
    const index = among && tf.tensor1d(among, 'int32');
    const absent = among && absentOptions(options, rows, among.length);
    const scores: Tensor2D = index ? tf.gather(logp, index, 1) : logp;
    // A softmax over some of the tokens: their log p differ from the scores by a constant.
    const r: Tensor2D = index ? tf.softmax(absent ? tf.add<Tensor2D>(scores, absent) : scores) : p;
    const [top, best] = [tf.max(r, 1), tf.argMax(r, 1)];
    const [confidence, chosen] = [top.dataSync<'float32'>(), best.dataSync<'int32'>()];
    const correct = Array.from(chosen, (k, row) => (among ? among[k] : k) === labels![row]);
    const target = tf.tensor1d(Float32Array.from(targetOf({ confidence, correct })));
    const gap = tf.sub(top, target);
    const slope = tf.mul(tf.mul(weights, 2), tf.mul(gap, top));
    const oneHot = tf.oneHot(best, r.shape[1], 1, 0, 'float32');
    const byOption = tf.mul<Tensor2D>(tf.sub(oneHot, r), column(slope));
    return {
      value: tf.sum(tf.mul(weights, tf.square(gap))),
      u: index ? tf.matMul(byOption, tf.oneHot(index, size, 1, 0, 'float32')) : byOption,
    };
  };

/** The sum of criteria, each with its factor. */
export const weightedSum =
  (...parts: readonly (readonly [factor: number, criterion: Criterion])[]): Criterion =>
  (distribution, rows) => {
    const losses = parts.map(([factor, criterion]) => {
      const { value, u } = criterion(distribution, rows);
      return { value: tf.mul(value, factor), u: tf.mul<Tensor2D>(u, factor) };
    });
    return losses.reduce((a, b) => ({ value: tf.add(a.value, b.value), u: tf.add(a.u, b.u) }));
  };

/** [p, k]: -1e30 from each row's number of options on, else 0; undefined when every row has all. */
export function absentOptions(
  options: readonly number[] | undefined,
  rows: number,
  count: number,
): Tensor2D | undefined {
  if (!options || options.every((n) => n >= count)) return undefined;
  const mask = options.flatMap((n) => Array.from({ length: count }, (_, i) => (i < n ? 0 : -1e30)));
  return tf.tensor2d(mask, [rows, count]);
}

const column = (t: Tensor) => tf.reshape(t, [-1, 1]);

/** [p, 2]: row and label. */
function entries(labels: Int32Array): Tensor2D {
  return tf.stack([tf.range(0, labels.length, 1, 'int32'), tf.tensor1d(labels, 'int32')], 1) as Tensor2D;
}
