import { describe, expect, it, test } from 'vitest';
import { tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { dispose, type Tree } from '../../src/engine/tree';
import { addScaled, bomeLambda, bomeStep, type BilevelProblem, type BomeOptions } from '../../src/train/bome';
import { HAS_SHARED, sharedJson } from '../shared';

const number = (tree: Tree) => (tree as ReturnType<typeof tf.scalar>).dataSync()[0]!;
const OPTIONS: BomeOptions = { innerSteps: 3, innerRate: 0.25, gamma: 0.5 };

/**
 * g = (theta - 2 alpha)^2 / 2, so that the lower level's answer is 2 alpha; f = ((theta - 1)^2 + (alpha - 3)^2) / 2. On
 * theta = 2 alpha, f is least where 2 (2 alpha - 1) + alpha - 3 = 0: alpha = 1, theta = 2.
 */
const quadratic: BilevelProblem = {
  lower(alpha, theta, _batch, wanted) {
    const gap = number(theta) - 2 * number(alpha);
    return {
      loss: gap ** 2 / 2,
      ...(wanted.alpha && { alpha: tf.scalar(-2 * gap) }),
      ...(wanted.theta && { theta: tf.scalar(gap) }),
    };
  },
  upper(alpha, theta) {
    const [a, t] = [number(alpha) - 3, number(theta) - 1];
    return { loss: (a ** 2 + t ** 2) / 2, alpha: tf.scalar(a), theta: tf.scalar(t) };
  },
};

describe('bomeStep on a quadratic', () => {
  const step = (options: Partial<BomeOptions> = {}, problem = quadratic) =>
    bomeStep(problem, tf.scalar(1), tf.scalar(6), { ...OPTIONS, ...options });

  // By hand: theta - 2 alpha = 4 shrinks by 3/4 an inner step, to 27/16. g_q is its gradient: theta part 4, alpha part
  // -2 * 4 + 2 * 27/16. g_f = (-2, 5).
  it('gives the values of the paper for theta~ held constant', () => {
    const found = step();
    const end = 4 * 0.75 ** 3;
    expect(found.innerLosses).toEqual([8, 4.5, 2.53125]);
    expect(found.residual).toBeCloseTo(8 - end ** 2 / 2, 5);
    const alpha = -8 + 2 * end;
    expect(found.residualNormSquared).toBeCloseTo(alpha ** 2 + 16, 4);
    expect(found.dot).toBeCloseTo(-2 * alpha + 20, 4);
    expect(found.phi).toBeCloseTo((alpha ** 2 + 16) / 2, 4);
    const lambda = Math.max(0.5 - (-2 * alpha + 20) / (alpha ** 2 + 16), 0);
    expect(found.lambda).toBeCloseTo(lambda, 5);
    expect(number(found.direction.alpha)).toBeCloseTo(-2 + lambda * alpha, 5);
    expect(number(found.direction.theta)).toBeCloseTo(5 + lambda * 4, 5);
  });

  it('leaves the second term out of the alpha part when it is frozen', () => {
    const found = step({ residual: 'frozen' });
    expect(found.residualNormSquared).toBeCloseTo(64 + 16, 4);
    expect(found.dot).toBeCloseTo(16 + 20, 4);
  });

  it('uses the residual as the barrier when asked', () => {
    const found = step({ barrier: 'value' });
    expect(found.phi).toBeCloseTo(0.5 * found.residual, 5);
  });

  it('with no inner steps has residual 0 and no alpha part', () => {
    const found = step({ innerSteps: 0 });
    expect(found.residual).toBe(0);
    expect(found.residualNormSquared).toBeCloseTo(16, 5);
  });

  it('is the gradient of the residual with theta~ held constant (central differences)', () => {
    const lower = (alpha: number, theta: number) => (theta - 2 * alpha) ** 2 / 2;
    const end = 2 + 4 * 0.75 ** 3;
    const residual = (alpha: number, theta: number) => lower(alpha, theta) - lower(alpha, end);
    const e = 1e-4;
    const byAlpha = (residual(1 + e, 6) - residual(1 - e, 6)) / (2 * e);
    const byTheta = (residual(1, 6 + e) - residual(1, 6 - e)) / (2 * e);
    expect(step().residualNormSquared).toBeCloseTo(byAlpha ** 2 + byTheta ** 2, 3);
  });

  it.each(['danskin', 'frozen'] as const)('walks to the bilevel optimum (%s)', (residual) => {
    let [alpha, theta]: Tree[] = [tf.scalar(-2), tf.scalar(5)];
    // `frozen` errs by the gradient at theta~, which a long inner loop takes to 0.
    const options: BomeOptions = { ...OPTIONS, innerSteps: 12, residual };
    for (let k = 0; k < 600; k++) {
      const { direction } = bomeStep(quadratic, alpha, theta, options);
      [alpha, theta] = [addScaled(alpha, direction.alpha, -0.1), addScaled(theta, direction.theta, -0.1)];
    }
    expect(number(alpha)).toBeCloseTo(1, 1);
    expect(number(theta)).toBeCloseTo(2, 1);
  });

  it('asks each inner step for its own batch and comes back to the first for the residual', () => {
    const asked: string[] = [];
    const problem: BilevelProblem = {
      ...quadratic,
      lower: (alpha, theta, batch, wanted) => {
        asked.push(`${batch}${wanted.alpha ? ' alpha' : ''}${wanted.theta ? ' theta' : ''}`);
        return quadratic.lower(alpha, theta, batch, wanted);
      },
    };
    step({}, problem);
    expect(asked).toEqual(['0 alpha theta', '1 theta', '2 theta', '0 alpha']);
  });

  it('keeps no tensors beyond its direction, leaves its arguments alone, and refuses what are no options', async () => {
    const [alpha, theta] = [tf.scalar(1), tf.scalar(6)];
    const kept = await tensorsKept(() => {
      const { direction } = bomeStep(quadratic, alpha, theta, OPTIONS);
      dispose([direction.alpha, direction.theta]);
    });
    expect(kept).toBe(0);
    expect([number(alpha), number(theta)]).toEqual([1, 6]);
    expect(() => step({ innerSteps: 1.5 })).toThrow('1.5 inner steps');
    expect(() => step({ innerRate: NaN })).toThrow('NaN is not an inner rate');
  });
});

interface LambdaUnit {
  kind: string;
  id: string;
  norm_sq: number;
  dot: number;
  gamma: number;
  q_hat: number;
  lambda_: number;
  lambda_if_phi_is_gamma_times_qhat: number;
}

test.skipIf(!HAS_SHARED)('lambda of the reference vectors, under both barriers', () => {
  const { units } = sharedJson<{ units: LambdaUnit[] }>('oracle', 'calm', 'public.json');
  const found = units.filter((unit) => unit.kind === 'lambda');
  expect(found.length).toBeGreaterThan(4);
  for (const unit of found) {
    expect(bomeLambda(unit.gamma * unit.norm_sq, unit.dot, unit.norm_sq), unit.id).toBeCloseTo(unit.lambda_, 8);
    const byValue = bomeLambda(unit.gamma * unit.q_hat, unit.dot, unit.norm_sq);
    expect(byValue, unit.id).toBeCloseTo(unit.lambda_if_phi_is_gamma_times_qhat, 8);
  }
});
