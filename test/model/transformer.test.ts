import { expect, test } from 'vitest';
import { pack } from '../../src/model/packed';
import { forward } from '../../src/model/transformer';
import { maxAbsDifference } from '../shared';
import { tinyModel } from './tiny-model';

const branches = [
  { after: 7, ids: [6, 5] },
  { after: 4, ids: [3] },
];
const branched = [{ ids: [3, 1, 4, 1, 5, 9, 2], branches }, { ids: [5, 8, 9] }];

test.each([1, 50, 300])('attention in parts of %i scores is the same as at once', (mostScores) => {
  const model = tinyModel();
  const packed = pack(branched);
  const all = Int32Array.from({ length: packed.n }, (_, i) => i);
  const hidden = (options: { mostScores?: number }) =>
    forward(model.config, model.parameters, packed, all, options).hidden.dataSync<'float32'>();
  expect(maxAbsDifference(hidden({ mostScores }), hidden({}))).toBeLessThan(1e-5);
});

test('attention in parts sees the cache', () => {
  const { config, parameters } = tinyModel();
  const first = forward(config, parameters, pack([{ ids: [3, 1, 4] }]), Int32Array.of(2), { keep: true });
  const packed = pack([{ ids: [1, 5, 9] }], first.cache?.past);
  const hidden = (mostScores: number) =>
    forward(config, parameters, packed, Int32Array.of(0, 1, 2), { cache: first.cache, mostScores }).hidden;
  expect(maxAbsDifference(hidden(1).dataSync(), hidden(1e6).dataSync())).toBeLessThan(1e-5);
});
