import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf, type Tensor } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { dispose } from '../../src/engine/tree';
import { norm, optimise, warmupCosine, zeroMoments } from '../../src/train/optimiser';
import { HAS_SHARED, maxAbsDifference, sharedJson } from '../shared';

beforeAll(startEngine);

interface Unit {
  kind: string;
  id: string;
  p0: number[];
  grads: number[][];
  lr: number;
  betas: [number, number];
  eps: number;
  weight_decay: number;
  warmup_steps: number;
  total_steps: number;
  lr_used_per_step: number[];
  params_after_each_step: number[][];
}

describe.skipIf(!HAS_SHARED)('AdamW with warm-up and cosine against the reference (needs ../shared)', () => {
  const units = HAS_SHARED
    ? sharedJson<{ units: Unit[] }>('oracle', 'calm', 'public.json').units.filter((u) => u.kind === 'adamw_cosine')
    : [];
  it.each(units.map((u) => [u.id, u] as const))('%s', (_id, u) => {
    let parameters: { p: Tensor } = { p: tf.tensor1d(u.p0) };
    let moments = zeroMoments(parameters);
    u.grads.forEach((gradient, k) => {
      const rate = u.lr * warmupCosine(k, u.warmup_steps, u.total_steps);
      expect(rate).toBeCloseTo(u.lr_used_per_step[k]!, 12);
      const options = { optimiser: 'adamw', betas: u.betas, eps: u.eps } as const;
      const step = { step: k + 1, rate, weightDecay: u.weight_decay };
      const next = optimise(options, parameters, { p: tf.tensor1d(gradient) }, moments, step);
      parameters = next.parameters as typeof parameters;
      moments = next.moments!;
      expect(maxAbsDifference(parameters.p.dataSync(), u.params_after_each_step[k]!)).toBeLessThan(1e-6);
    });
  });
});

describe('optimise', () => {
  it('by hand: the first AdamW step is the rate against the sign, after the decay', () => {
    const parameters = { p: tf.tensor1d([1, -2]) };
    const gradient = { p: tf.tensor1d([3, -0.5]) };
    const step = { step: 1, rate: 0.1, weightDecay: 0.5 };
    const next = optimise({ optimiser: 'adamw' }, parameters, gradient, zeroMoments(parameters), step);
    const [a, b] = (next.parameters as { p: Tensor }).p.dataSync();
    expect(a).toBeCloseTo(1 * (1 - 0.05) - 0.1, 6);
    expect(b).toBeCloseTo(-2 * (1 - 0.05) + 0.1, 6);
  });

  it('plain steps go against the gradient; a rate of 0 changes nothing', () => {
    const parameters = { p: tf.tensor1d([1, -2]) };
    const gradient = { p: tf.tensor1d([3, -0.5]) };
    const at = (rate: number, weightDecay = 0) => {
      const next = optimise({ optimiser: 'sgd' }, parameters, gradient, undefined, { step: 1, rate, weightDecay });
      return [...(next.parameters as { p: Tensor }).p.dataSync()];
    };
    expect(at(2)).toEqual([-5, -1]);
    expect(at(0, 0.02)).toEqual([1, -2]);
  });

  it('keeps its results and nothing else', async () => {
    const parameters = { p: tf.tensor1d([1, -2]), q: [tf.zeros([2, 2])] };
    const moments = zeroMoments(parameters);
    const step = { step: 1, rate: 0.1, weightDecay: 0.02 };
    for (const optimiser of ['adamw', 'sgd'] as const) {
      const kept = await tensorsKept(() => {
        const next = optimise({ optimiser }, parameters, parameters, moments, step);
        dispose([next.parameters, next.moments?.first, next.moments?.second]);
      });
      expect(kept).toBe(0);
    }
    expect(norm(parameters)).toBeCloseTo(Math.sqrt(5), 6);
  });
});

describe('warmupCosine', () => {
  it.each([
    [0, 2, 6, 0],
    [1, 2, 6, 0.5],
    [2, 2, 6, 1],
    [4, 2, 6, 0.5],
    [6, 2, 6, 0],
    [9, 2, 6, 0],
    [0, 0, 6, 1],
    [3, 0, 6, 0.5],
    [1, 1, 1, 1],
  ])('at step %i of %i and %i: %f', (step, warmup, total, share) => {
    expect(warmupCosine(step, warmup, total)).toBeCloseTo(share, 12);
  });
});
