import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  confidenceTowards,
  crossEntropy,
  negativeEntropy,
  negativeSelfLabel,
  smoothed,
  weightedSum,
  type Criterion,
} from '../../src/calibrate/criterion';
import { throughHead } from '../../src/calibrate/head';
import { startEngine, tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { maxAbsDifference } from '../shared';

beforeAll(startEngine);

interface Row {
  z: number[];
  label: number;
  weight?: number;
  options?: number;
  smoothing?: number;
}

/** A criterion of rows of logits: the loss, and its gradient by them. */
function at(criterion: Criterion, rows: Row[]) {
  const { loss, z } = throughHead(tf.tensor2d(rows.map((row) => row.z)), undefined, criterion, {
    weights: tf.tensor1d(rows.map(({ weight = 1 }) => weight)),
    labels: Int32Array.from(rows, ({ label }) => label),
    options: rows.map(({ options = Infinity }) => options),
    smoothing: Float32Array.from(rows, ({ smoothing = 0 }) => smoothing),
  });
  return { loss, gradient: z.dataSync<'float32'>() };
}

const HALF = { z: [Math.log(2), 0, 0], label: 0 }; // p = 1/2, 1/4, 1/4
const LETTERS = Int32Array.of(1, 3, 4);

describe('criteria, by hand', () => {
  it.each<[string, Criterion, Row, number]>([
    ['cross-entropy', crossEntropy, HALF, Math.log(2)],
    ['cross-entropy of another', crossEntropy, { ...HALF, label: 2 }, Math.log(4)],
    ['minus entropy', negativeEntropy, HALF, -1.5 * Math.log(2)],
    ['log p of the most likely', negativeSelfLabel, { ...HALF, label: 1 }, -Math.log(2)],
    // 0.8 ln 2 + 0.1 ln 4 + 0.1 ln 4
    ['smoothing', smoothed(), { ...HALF, smoothing: 0.2 }, 1.2 * Math.log(2)],
    ['no smoothing', smoothed(), HALF, Math.log(2)],
    ['a label that keeps a third', smoothed(), { ...HALF, smoothing: 2 / 3 }, (5 / 3) * Math.log(2)],
    // All mass of the label's 0.6 and 0.4 for the only other option: token 2 takes no part.
    ['smoothing over two options', smoothed(Int32Array.of(0, 1, 2)), { ...HALF, options: 2, smoothing: 0.4 }, 1.4 * Math.log(2)],
    ['confidence that is too high', confidenceTowards(() => [0.3]), HALF, 0.04],
    ['confidence that is too low', confidenceTowards(() => [0.9]), HALF, 0.16],
    // Among tokens 0 and 1 the first has 2/3.
    ['confidence among options', confidenceTowards(() => [0], Int32Array.of(0, 1)), HALF, 4 / 9],
    ['a sum', weightedSum([0.5, crossEntropy], [2, negativeEntropy]), HALF, -2.5 * Math.log(2)],
    ['L-9: a row that counts nothing', crossEntropy, { ...HALF, weight: 0 }, 0],
    ['L-11: a wide range', crossEntropy, { z: [-431, 279, 427], label: 0 }, 858],
    ['L-11: a token that cannot be', crossEntropy, { z: [-Infinity, 0, 0], label: 1 }, Math.log(2)],
  ])('%s', (_what, criterion, row, right) => {
    const { loss, gradient } = at(criterion, [row]);
    expect(Math.abs(loss - right)).toBeLessThan(1e-6 * Math.max(1, Math.abs(right)));
    expect([...gradient].every(Number.isFinite)).toBe(true);
    expect(gradient.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 6); // the same added to every score changes nothing
  }); // prettier-ignore

  it('tells who was seen with what confidence, and whether rightly', () => {
    const seen: unknown[] = [];
    const note = confidenceTowards((all) => (seen.push(all), all.confidence), LETTERS);
    const { loss } = at(note, [
      { z: [9, 0, 9, Math.log(2), 0], label: 3 },
      { z: [0, Math.log(3), 0, 0, 50], label: 3, options: 2 },
    ]);
    expect(loss).toBe(0);
    const [{ confidence, correct }] = seen as [{ confidence: Float32Array; correct: boolean[] }];
    expect(maxAbsDifference(confidence, [0.5, 0.75])).toBeLessThan(1e-6);
    expect(correct).toEqual([true, false]);
  });
});

describe('the gradients', () => {
  // A twentieth apart at least: where the most likely token changes hands a loss has a corner.
  const logits = fc.uniqueArray(fc.integer({ min: -60, max: 60 }), { minLength: 5, maxLength: 5 });
  const rows = fc.array(
    fc.record({
      z: logits.map((all) => all.map((twentieths) => twentieths / 20)),
      label: fc.constantFrom(...LETTERS.subarray(0, 2)),
      weight: fc.double({ min: 0.2, max: 2, noNaN: true }),
      options: fc.constantFrom(2, 3),
      smoothing: fc.double({ min: 0, max: 0.9, noNaN: true }),
    }),
    { minLength: 1, maxLength: 3 },
  );

  it.each<[string, Criterion]>([
    ['cross-entropy', crossEntropy],
    ['minus entropy', negativeEntropy],
    ['log p of the most likely', negativeSelfLabel],
    ['smoothing', smoothed()],
    ['smoothing over options', smoothed(LETTERS)],
    ['confidence', confidenceTowards(({ confidence }) => Array.from(confidence, () => 0.4))],
    ['confidence among options', confidenceTowards(({ confidence }) => Array.from(confidence, () => 0.4), LETTERS)],
    ['a sum', weightedSum([0.7, crossEntropy], [0.3, confidenceTowards(({ confidence }) => Array.from(confidence, () => 0.8), LETTERS)], [0.2, negativeEntropy])],
  ])('of %s are finite differences', (_what, criterion) => {
    const h = 1e-2;
    fc.assert(
      fc.property(rows, (all) => {
        const { gradient } = at(criterion, all);
        all.forEach(({ z }, row) => {
          z.forEach((value, i) => {
            const moved = (by: number) =>
              at(criterion, all.map((one, r) => (r === row ? { ...one, z: z.map((x, j) => (j === i ? value + by : x)) } : one))).loss;
            const slope = (moved(h) - moved(-h)) / (2 * h);
            expect(Math.abs(gradient[row * 5 + i]! - slope)).toBeLessThan(2e-3);
          });
        });
      }),
      { numRuns: 12 },
    );
  }); // prettier-ignore

  it('keep nothing but the gradient', async () => {
    const z = tf.tensor2d([[1, 2, 3, 4, 5]]);
    const weights = tf.tensor1d([1]);
    const all = weightedSum(
      [1, smoothed(LETTERS)],
      [1, confidenceTowards(() => [0.5], LETTERS)],
      [1, negativeSelfLabel],
    );
    const rows = { weights, labels: Int32Array.of(3), smoothing: Float32Array.of(0.1) };
    expect(await tensorsKept(() => throughHead(z, undefined, all, rows))).toBe(1);
  });
});
