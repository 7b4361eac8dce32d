import { tf, type Tensor } from '../engine/backend';
import { leaves, map, zip, type Tree } from '../engine/tree';

/** Running means of a group's gradients and of their squares. */
export type Moments = { first: Tree; second: Tree };

export interface OptimiserOptions {
  /** `adamw` (Loshchilov & Hutter 2019), as C.1 of the CALM paper; `sgd` is the plain step of its Algorithm 1. */
  optimiser: 'adamw' | 'sgd';
  betas?: readonly [number, number];
  eps?: number;
}

/** Moments of a group before its first step. */
export function zeroMoments(parameters: Tree): Moments {
  const zeros = () => map(parameters, (leaf) => tf.zerosLike(leaf));
  return { first: zeros(), second: zeros() };
}

/**
 * One step against `gradient` with decoupled weight decay: new parameters and moments; nothing is disposed of.
 * @param step counts from 1, for AdamW's bias correction
 */
export function optimise(
  { optimiser, betas: [beta1, beta2] = [0.9, 0.95], eps = 1e-8 }: OptimiserOptions,
  parameters: Tree,
  gradient: Tree,
  moments: Moments | undefined,
  { step, rate, weightDecay }: { step: number; rate: number; weightDecay: number },
): { parameters: Tree; moments?: Moments } {
  const decayed = (leaf: Tensor) => (weightDecay === 0 || rate === 0 ? leaf : tf.mul(leaf, 1 - rate * weightDecay));
  if (optimiser === 'sgd') {
    return { parameters: zip((p, g) => tf.tidy(() => tf.sub(decayed(p), tf.mul(g, rate))), parameters, gradient) };
  }
  if (!moments) throw new Error('AdamW needs its moments');
  const mean = (old: Tree, beta: number, of: (g: Tensor) => Tensor) =>
    zip((m, g) => tf.tidy(() => tf.add(tf.mul(m, beta), tf.mul(of(g), 1 - beta))), old, gradient);
  const first = mean(moments.first, beta1, (g) => g);
  const second = mean(moments.second, beta2, (g) => tf.square(g));
  const seconds = new Map(leaves(second));
  const [correction1, correction2] = [1 - beta1 ** step, 1 - beta2 ** step];
  const moved = zip(
    (p, m, place) =>
      tf.tidy(() => {
        const scale = tf.add(tf.sqrt(tf.div(seconds.get(place)!, correction2)), eps);
        return tf.sub(decayed(p), tf.div(tf.mul(m, rate / correction1), scale));
      }),
    parameters,
    first,
  );
  return { parameters: moved, moments: { first, second } };
}

/** Linear warm-up to 1, then half a cosine to 0 at `total`, as Hugging Face's schedule: 0 at step 0 with a warm-up. */
export function warmupCosine(step: number, warmup: number, total: number): number {
  if (step < warmup) return step / warmup;
  const share = (step - warmup) / Math.max(1, total - warmup);
  return Math.max(0, 0.5 * (1 + Math.cos(Math.PI * Math.min(1, share))));
}

/** The length of a tree's vector, in float64 across leaves. */
export function norm(tree: Tree): number {
  const squares = leaves(tree).map(([, leaf]) => {
    const sum = tf.tidy(() => tf.sum(tf.square(leaf)));
    const [value] = sum.dataSync<'float32'>();
    sum.dispose();
    return value!;
  });
  return Math.sqrt(squares.reduce((a, b) => a + b, 0));
}
