import { UsageError } from '../base/errors';
import { tf } from '../engine/backend';
import { dispose, leaves, map, zip, type Tree } from '../engine/tree';

/** A loss (a mean, so that batches of any size compare) and its gradients by the variables that were asked for. */
export interface Gradients {
  loss: number;
  alpha?: Tree;
  theta?: Tree;
}

/** The two levels of a bilevel problem: upper variables alpha, lower variables theta, both trees of tensors. */
export interface BilevelProblem {
  /**
   * The lower objective g(alpha, theta) on the inner batch with that index (0 to T - 1), with the gradients wanted.
   * The caller disposes of them. It must not keep or change alpha and theta.
   */
  lower(alpha: Tree, theta: Tree, batch: number, wanted: { alpha: boolean; theta: boolean }): Gradients;
  /** The upper objective f(alpha, theta), here minus the mean predictive entropy, with both gradients. */
  upper(alpha: Tree, theta: Tree): Gradients;
}

export interface BomeOptions {
  /** T, steps of the inner loop from the current theta; 0 leaves the residual's theta~ at theta. */
  innerSteps: number;
  /** rho, the rate of the inner loop's plain gradient steps. */
  innerRate: number;
  /** gamma (the paper's eta of C.2), 0.5 there. */
  gamma: number;
  /**
   * The alpha part of the residual's gradient. `danskin`: grad L(theta_k; alpha) - grad L(theta~; alpha), as A.1 and BOME
   * have it. `frozen`: alpha_k held fixed in the second term, as Eq. 12 and Algorithm 1 write it.
   */
  residual?: 'danskin' | 'frozen';
  /** phi: `gradient`, gamma |g_q|^2 (A.3 of the paper), or `value`, gamma q^ (the other choice of BOME). */
  barrier?: 'gradient' | 'value';
}

/** One outer iteration's numbers, and where to go. */
export interface BomeStep {
  /** g_f + lambda g_q, for alpha and theta: a step goes against it. */
  direction: { alpha: Tree; theta: Tree };
  lambda: number;
  /** q^ = L(theta_k) - L(theta~), both at alpha_k, on the first inner batch. Negative where the inner loop went astray. */
  residual: number;
  /** |g_q|^2 over alpha and theta together. */
  residualNormSquared: number;
  /** <g_q, g_f> over alpha and theta together. */
  dot: number;
  phi: number;
  /** L at theta_k and before each further inner step, each on its own batch. */
  innerLosses: number[];
  upperLoss: number;
}

/** <a, b> over all leaves: leaf by leaf in float32, across leaves in float64. */
function dot(a: Tree, b: Tree): number {
  const products = zip((x, y) => tf.tidy(() => tf.sum(tf.mul(x, y))), a, b);
  const sum = leaves(products).reduce((total, [, product]) => total + product.dataSync<'float32'>()[0]!, 0);
  dispose(products);
  return sum;
}

/** lambda = max((phi - <g_q, g_f>) / |g_q|^2, 0), 0 where g_q vanishes; nothing is added to the denominator. */
export function bomeLambda(phi: number, dotProduct: number, residualNormSquared: number): number {
  return residualNormSquared > 0 ? Math.max((phi - dotProduct) / residualNormSquared, 0) : 0;
}

/** a + scale * b, leaf by leaf. The caller disposes of it. */
export function addScaled(a: Tree, b: Tree, scale: number): Tree {
  return zip((x, y) => tf.tidy(() => tf.add(x, tf.mul(y, scale))), a, b);
}

/**
 * The direction of one outer iteration of BOME (Liu et al. 2022; CALM paper, Algorithm 1): T gradient steps on a copy of
 * theta give theta~; the value-function residual q^ = L(theta) - L(theta~), theta~ held constant, has the joint gradient
 * g_q; f is then descended so that q^ shrinks too. Knows nothing of models: alpha and theta are any trees.
 * The caller disposes of `direction`.
 * @throws UsageError on steps or rates that are none
 */
export function bomeStep(problem: BilevelProblem, alpha: Tree, theta: Tree, options: BomeOptions): BomeStep {
  const { innerSteps, innerRate, gamma, residual = 'danskin', barrier = 'gradient' } = options;
  if (!Number.isSafeInteger(innerSteps) || innerSteps < 0) throw new UsageError(`${innerSteps} inner steps are none`);
  if (!(innerRate >= 0 && Number.isFinite(innerRate))) throw new UsageError(`${innerRate} is not an inner rate`);
  const owned: Tree[] = [];
  const own = <T extends Tree | undefined>(tree: T): T => {
    owned.push(tree);
    return tree;
  };
  try {
    // The gradient at theta_k serves both the first inner step and the residual.
    const start = problem.lower(alpha, theta, 0, { alpha: true, theta: true });
    own(start.alpha);
    own(start.theta);
    const innerLosses = [start.loss];
    let end = theta;
    for (let t = 0; t < innerSteps; t++) {
      const { loss, theta: gradient } = t === 0 ? start : problem.lower(alpha, end, t, { alpha: false, theta: true });
      const next = own(addScaled(end, gradient, -innerRate));
      if (t > 0) {
        innerLosses.push(loss);
        dispose([gradient, end]); // now, not at the end: T copies of theta would be most of the memory
      }
      end = next;
    }
    const last =
      innerSteps === 0 ? start : problem.lower(alpha, end, 0, { alpha: residual === 'danskin', theta: false });
    if (innerSteps > 0) own(last.alpha);
    const residualAlpha = own(
      residual === 'danskin' ? addScaled(start.alpha, last.alpha, -1) : map(start.alpha, (x) => tf.clone(x)),
    );
    const upper = problem.upper(alpha, theta);
    own(upper.alpha);
    own(upper.theta);
    const both = [residualAlpha, start.theta];
    const residualNormSquared = dot(both, both);
    const dotProduct = dot(both, [upper.alpha, upper.theta]);
    const phi = gamma * (barrier === 'gradient' ? residualNormSquared : start.loss - last.loss);
    const lambda = bomeLambda(phi, dotProduct, residualNormSquared);
    return {
      direction: {
        alpha: addScaled(upper.alpha, residualAlpha, lambda),
        theta: addScaled(upper.theta, start.theta, lambda),
      },
      lambda,
      residual: start.loss - last.loss,
      residualNormSquared,
      dot: dotProduct,
      phi,
      innerLosses,
      upperLoss: upper.loss,
    };
  } finally {
    owned.forEach(dispose);
  }
}
