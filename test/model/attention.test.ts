import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf } from '../../src/engine/backend';
import { Random } from '../../src/engine/random';
import { attention, attentionBackward, layBackwardGrid, layGrid } from '../../src/model/attention';
import { pack, type Sequence } from '../../src/model/packed';
import { maxAbsDifference } from '../shared';
import { tinyModel } from './tiny-model';
import { treeOf } from './trees';

beforeAll(startEngine);

const batches = fc.array(treeOf(fc.constant(1)), { minLength: 1, maxLength: 4 });

/** Attention forwards and backwards on random inputs, queries taken in parts of at most `mostScores` scores. */
function run(batch: readonly Sequence[], mostScores: number) {
  const { config } = tinyModel();
  const packed = pack(batch);
  const random = Random.seed(9);
  const values = (...shape: [number, number]) =>
    tf.tensor2d(
      Float32Array.from({ length: shape[0] * shape[1] }, () => random.normal()),
      shape,
    );
  const channels = (config.heads + 2 * config.kvHeads) * config.headDim;
  let result: { parts: number; attended: ArrayLike<number>; backward: ArrayLike<number> } | undefined;
  tf.tidy(() => {
    const qkv = values(packed.n, channels);
    const gradient = values(packed.n, config.heads * config.headDim);
    const grid = layGrid(config, packed, 0, mostScores);
    const { attended, rotated } = attention(config, qkv, grid, undefined);
    const backward = attentionBackward(config, rotated, gradient, grid, layBackwardGrid(config, grid));
    result = { parts: grid.parts.length, attended: attended.dataSync(), backward: backward.dataSync() };
  });
  return result!;
}

describe('attention', () => {
  it('is the same, forwards and backwards, in however many parts its queries are taken', () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 1, max: 400 }), (batch, mostScores) => {
        const [whole, parts] = [run(batch, 2 ** 24), run(batch, mostScores)];
        expect(whole.parts).toBe(1);
        expect(maxAbsDifference(parts.attended, whole.attended)).toBeLessThan(1e-5);
        expect(maxAbsDifference(parts.backward, whole.backward)).toBeLessThan(1e-4);
      }),
      { numRuns: 40 },
    );
  });
});
