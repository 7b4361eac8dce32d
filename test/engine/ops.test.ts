import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf, type Tensor2D } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { constants, matmul, rmsNorm, rotaryTable, rotate, swiGlu } from '../../src/engine/ops';
import { opsCases, opsError } from './ops-cases';

const HEADS = [{ turned: true, scale: 1 }];

beforeAll(startEngine);

describe('ops', () => {
  it.each(opsCases(0).map(({ name }, i) => [name, i] as const))('%s is its formula in float64', (_name, i) => {
    for (let seed = 0; seed < 40; seed++) {
      const { run, shape, right } = opsCases(seed)[i]!;
      tf.tidy(() => {
        const tensor = run();
        expect(tensor.shape).toEqual(shape);
        expect(opsError(tensor.dataSync(), right), `seed ${seed}`).toBeLessThan(1e-5);
      });
    }
  });

  it('rmsNorm of zeros is zeros', () => {
    tf.tidy(() => {
      expect(Array.from(rmsNorm(tf.zeros([1, 3]), tf.ones([3]), constants(3, 1e-5)).dataSync())).toEqual([0, 0, 0]);
    });
  });

  it('rotate by 0 changes nothing, by a quarter turn swaps a pair with a sign', () => {
    tf.tidy(() => {
      const x = tf.tensor2d([[1, 2, 3, 4]]);
      const turned = rotate(x, rotaryTable(Int32Array.of(1), Float64Array.of(0, Math.PI / 2), HEADS)).dataSync();
      expect([turned[0], turned[1]]).toEqual([1, 2]);
      expect(turned[2]).toBeCloseTo(-4, 6);
      expect(turned[3]).toBeCloseTo(3, 6);
    });
  });

  it('swiGlu neither overflows nor loses the gate far from 0', () => {
    tf.tidy(() => {
      const [low, high] = swiGlu(tf.tensor2d([[-1000, 1000]]), tf.ones([1, 2])).dataSync();
      expect([Math.abs(low!), high]).toEqual([0, 1000]);
    });
  });

  it('keep their result and nothing else, outside any tidy', async () => {
    const matrix: Tensor2D = tf.ones([2, 4]);
    const [row, table, shared] = [
      tf.ones([4]),
      rotaryTable(Int32Array.of(0, 5), Float64Array.of(1, 2), HEADS),
      constants(4, 1e-5),
    ] as const;
    expect(await tensorsKept(() => matmul(matrix, matrix, { transposeB: true }).dispose())).toBe(0);
    expect(await tensorsKept(() => rmsNorm(matrix, row, shared).dispose())).toBe(0);
    expect(await tensorsKept(() => rotate(matrix, table).dispose())).toBe(0);
    expect(await tensorsKept(() => swiGlu(matrix, matrix).dispose())).toBe(0);
    expect(await tensorsKept(() => tf.dispose(rotaryTable(Int32Array.of(0, 5), Float64Array.of(1), HEADS)))).toBe(0);
  });
});
