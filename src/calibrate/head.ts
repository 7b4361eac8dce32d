import { tf, type Tensor, type Tensor1D, type Tensor2D } from '../engine/backend';
import { crossEntropy, negativeEntropy, type Criterion, type Rows } from './criterion';

/**
 * The calibration head of the CALM paper (Eq. 2 and C.2): f = softmax(d * z + l) over the vocabulary, d = 1 / tau.
 * Vectors [V], or scalars [1] shared by all tokens (the ablation; a shared l cancels in the softmax).
 */
export type Head = {
  d: Tensor1D;
  l: Tensor1D;
};

/** The head that changes nothing: d = 1, l = 0. @param size the vocabulary's, or 1 for the scalar form */
export function identityHead(size: number): Head {
  return { d: tf.ones([size]), l: tf.zeros([size]) };
}

/**
 * The box of the paper, [-10, 10], with d kept positive: d in [1e-3, 10], l in [-10, 10]. (The paper clips "all
 * trainable parameters to [-10, 10]"; at d <= 0 a token's logit would count backwards or not at all.)
 */
export function clipHead({ d, l }: Head): Head {
  return { d: tf.clipByValue(d, 1e-3, 10), l: tf.clipByValue(l, -10, 10) };
}

/** How far the head is from the identity: the largest |d - 1| and |l|. */
export function displacement({ d, l }: Head): { d_displacement: number; l_displacement: number } {
  const largest = (t: typeof d, from: number) =>
    tf.tidy(() => tf.max(tf.abs(tf.sub(t, from))).dataSync<'float32'>()[0]!);
  return { d_displacement: largest(d, 1), l_displacement: largest(l, 0) };
}

/** The head of the tokens `index` [k] alone; one that all tokens share stays as it is. */
export function headAt(head: Head, index: Tensor1D): Head {
  return head.d.shape[0] === 1 ? head : { d: tf.gather(head.d, index), l: tf.gather(head.l, index) };
}

/** Logits [p, V] through the head: d * z + l. */
export function applyHead(z: Tensor2D, { d, l }: Head): Tensor2D {
  return tf.tidy(() => tf.add(tf.mul(z, d), l));
}

/**
 * The head as part of the output projection, so that inference costs nothing extra: rows of W [V, hidden] scaled by d,
 * and a bias l [V]. The caller disposes of both.
 */
export function foldHead(unembedding: Tensor2D, { d, l }: Head): { unembedding: Tensor2D; bias: Tensor1D } {
  const [vocab] = unembedding.shape;
  return tf.tidy(() => ({
    unembedding: tf.mul(unembedding, tf.reshape(d, [-1, 1])),
    bias: tf.add<Tensor1D>(tf.zeros([vocab]), l),
  }));
}

/** A loss at p positions, and its gradients by logits [p, V] (before the head) and by the head, in its own shape. */
export interface PositionLoss {
  loss: number;
  z: Tensor2D;
  head?: Head;
}

/**
 * A criterion at p positions through the head where there is one, u = d z + l, and its gradients by the chain rule.
 * @param z logits [p, V]
 * @param hidden added to the scores [p, V]: 0, or -1e30 where a token is no option
 */
export function throughHead(
  z: Tensor2D,
  head: Head | undefined,
  criterion: Criterion,
  rows: Rows,
  hidden?: Tensor2D,
): PositionLoss {
  const result = tf.tidy(() => {
    const u = head ? applyHead(z, head) : z;
    const logp: Tensor2D = tf.logSoftmax(hidden ? tf.add<Tensor2D>(u, hidden) : u);
    const { value, u: du } = criterion({ logp, p: tf.exp(logp) }, rows);
    if (!head) return { value, z: du };
    const shape = head.d.shape;
    const total = (t: Tensor): Tensor1D => tf.reshape(shape[0] === 1 ? tf.sum(t) : tf.sum(t, 0), shape);
    return { value, z: tf.mul<Tensor2D>(du, head.d), head: { d: total(tf.mul(du, z)), l: total(du) } };
  });
  const { value, ...gradients } = result;
  const loss = value.dataSync<'float32'>()[0]!;
  value.dispose();
  return { loss, ...gradients };
}

/**
 * Weighted sum over positions of the cross-entropy with `labels`, or (without labels) of minus the entropy of the
 * predictive distribution, in nats; and its gradients in closed form.
 * @param z logits [p, V]; @param weights [p], 1 / p each for a mean
 */
export function headLoss(
  z: Tensor2D,
  head: Head,
  weights: Tensor1D,
  labels?: Int32Array,
): { loss: number; z: Tensor2D } & Head {
  const { head: gradients, ...rest } = throughHead(z, head, labels ? crossEntropy : negativeEntropy, {
    weights,
    labels,
  });
  return { ...rest, ...gradients! };
}
