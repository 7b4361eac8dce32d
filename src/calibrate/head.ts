import { tf, type Tensor, type Tensor1D, type Tensor2D } from '../engine/backend';

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

/** A loss at p positions, and its gradients by logits [p, V] (before the head), d and l (in the head's own shape). */
export interface HeadLoss {
  loss: number;
  z: Tensor2D;
  d: Tensor1D;
  l: Tensor1D;
}

/**
 * Weighted sum over positions of the cross-entropy with `labels`, or (without labels) of minus the entropy of the
 * predictive distribution, in nats; and its gradients in closed form, u = d z + l, p = softmax(u):
 * dCE/du = p - onehot(y), d(-H)/du = p (log p + H).
 * Works in log space: extreme logits give finite values, and 0 log 0 = 0.
 * @param hidden added to the scores [p, V]: 0, or -1e30 where a token is no option
 * @param z logits [p, V]; @param weights [p], 1 / p each for a mean
 */
export function headLoss(z: Tensor2D, head: Head, weights: Tensor1D, labels?: Int32Array, hidden?: Tensor2D): HeadLoss {
  const result = tf.tidy(() => {
    const u = applyHead(z, head);
    const logp = tf.logSoftmax(hidden ? tf.add(u, hidden) : u); // [p, V]
    const p = tf.exp(logp);
    const column = tf.reshape(weights, [-1, 1]);
    let value: Tensor;
    let du: Tensor2D;
    if (labels) {
      const [rows] = z.shape;
      const at = tf.stack([tf.range(0, rows, 1, 'int32'), tf.tensor1d(labels, 'int32')], 1) as Tensor2D;
      value = tf.neg(tf.sum(tf.mul(weights, tf.gatherND(logp, at))));
      du = tf.sub(tf.mul(p, column), tf.scatterND(at, weights, z.shape));
    } else {
      // 0 where p underflows: p log p is then 0 * -large, which is 0 already, but -Infinity would make it NaN.
      const plogp = tf.mul(p, tf.maximum(logp, -1e30));
      const negative = tf.sum(plogp, 1, true); // [p, 1], minus the entropy
      value = tf.sum(tf.mul(weights, tf.reshape(negative, [-1])));
      du = tf.mul(tf.sub(plogp, tf.mul(p, negative)), column);
    }
    const [dz, perLogit] = [tf.mul<Tensor2D>(du, head.d), tf.mul(du, z)];
    const shape = head.d.shape;
    const total = (t: Tensor): Tensor1D => tf.reshape(shape[0] === 1 ? tf.sum(t) : tf.sum(t, 0), shape);
    return { value, z: dz, d: total(perLogit), l: total(du) };
  });
  const loss = result.value.dataSync<'float32'>()[0]!;
  result.value.dispose();
  return { loss, z: result.z, d: result.d, l: result.l };
}
