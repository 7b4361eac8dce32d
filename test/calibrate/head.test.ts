import { describe, expect, it } from 'vitest';
import { tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { applyHead, clipHead, foldHead, headLoss, identityHead } from '../../src/calibrate/head';
import { HAS_SHARED, maxAbsDifference, sharedJson } from '../shared';

interface Unit {
  kind: string;
  id: string;
  z: number[][];
  d: number[];
  l: number[];
  y: number[];
  probs: number[][];
  ce_mean: number;
  L_ent: number;
  grad_ce_mean: { z: number[][]; d: number[]; l: number[] };
  grad_L_ent: { z: number[][]; d: number[]; l: number[] };
}
const units = HAS_SHARED
  ? sharedJson<{ units: Unit[] }>('oracle', 'calm', 'public.json').units.filter((unit) => unit.kind === 'head')
  : [];

describe.skipIf(!HAS_SHARED)('the head of the reference', () => {
  it.each(units)('$id', ({ z, d, l, y, probs, ce_mean, L_ent, grad_ce_mean, grad_L_ent }) => {
    const logits = tf.tensor2d(z);
    const head = { d: tf.tensor1d(d), l: tf.tensor1d(l) };
    const weights = tf.tensor1d(z.map(() => 1 / z.length));
    const near = (found: ArrayLike<number>, right: number[], scale = 1) =>
      expect(maxAbsDifference(found, right)).toBeLessThan(1e-6 * Math.max(1, scale));
    near(tf.softmax(applyHead(logits, head)).dataSync(), probs.flat());
    const ce = headLoss(logits, head, weights, Int32Array.from(y));
    expect(Math.abs(ce.loss - ce_mean)).toBeLessThan(1e-6 * Math.max(1, ce_mean));
    near(ce.z.dataSync(), grad_ce_mean.z.flat());
    near(ce.d.dataSync(), grad_ce_mean.d, Math.max(...grad_ce_mean.d.map(Math.abs)));
    near(ce.l.dataSync(), grad_ce_mean.l);
    const entropy = headLoss(logits, head, weights);
    expect(entropy.loss).toBeCloseTo(L_ent, 6);
    near(entropy.z.dataSync(), grad_L_ent.z.flat());
    near(entropy.d.dataSync(), grad_L_ent.d);
    near(entropy.l.dataSync(), grad_L_ent.l);
  });
});

describe('the head', () => {
  const z = tf.tensor2d([
    [2, -1, 0.5],
    [0, 3, 1],
  ]);

  it('is the identity at the start', () => {
    expect(Array.from(applyHead(z, identityHead(3)).dataSync())).toEqual(Array.from(z.dataSync()));
    expect(Array.from(applyHead(z, identityHead(1)).dataSync())).toEqual(Array.from(z.dataSync()));
  });

  it('stays in its box, d above 0', () => {
    const { d, l } = clipHead({ d: tf.tensor1d([-3, 0, 0.5, 99]), l: tf.tensor1d([-99, 0.5, 99, 10]) });
    expect(d.arraySync()).toEqual([Math.fround(1e-3), Math.fround(1e-3), 0.5, 10]);
    expect(l.arraySync()).toEqual([-10, 0.5, 10, 10]);
  });

  it.each([3, 1])('folds into the output projection (%i values)', (size) => {
    const head =
      size === 3
        ? { d: tf.tensor1d([1.2, 0.8, 0.5]), l: tf.tensor1d([0.1, -0.2, 0.3]) }
        : { d: tf.tensor1d([0.5]), l: tf.tensor1d([0.2]) };
    const unembedding = tf.tensor2d([
      [1, 2],
      [-1, 0.5],
      [0.25, -3],
    ]);
    const hidden = tf.tensor2d([[0.7, -0.3]]);
    const folded = foldHead(unembedding, head);
    const direct = applyHead(tf.matMul(hidden, unembedding, false, true), head);
    const through = tf.add(tf.matMul(hidden, folded.unembedding, false, true), folded.bias);
    expect(maxAbsDifference(through.dataSync(), direct.dataSync())).toBeLessThan(1e-6);
  });

  it('with one constant added to every l is the same distribution', () => {
    const head = { d: tf.tensor1d([1.2, 0.8, 0.5]), l: tf.tensor1d([0.1, -0.2, 0.3]) };
    const moved = { ...head, l: tf.tensor1d([5.1, 4.8, 5.3]) };
    const probs = (h: typeof head) => tf.softmax(applyHead(z, h)).dataSync();
    expect(maxAbsDifference(probs(moved), probs(head))).toBeLessThan(1e-6);
  });

  it('weighs positions', () => {
    const head = identityHead(3);
    const only = headLoss(z, head, tf.tensor1d([0, 1]), Int32Array.of(2, 0));
    const alone = headLoss(tf.slice(z, [1, 0], [1, 3]), head, tf.tensor1d([1]), Int32Array.of(0));
    expect(only.loss).toBeCloseTo(alone.loss, 6);
    expect(maxAbsDifference(only.z.dataSync().subarray(0, 3), [0, 0, 0])).toBe(0);
  });

  it('keeps the three tensors that it returns', async () => {
    const head = identityHead(3);
    const weights = tf.tensor1d([0.5, 0.5]);
    expect(await tensorsKept(() => headLoss(z, head, weights, Int32Array.of(0, 1)))).toBe(3);
  });
});
