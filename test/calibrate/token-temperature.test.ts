import { beforeAll, expect, it } from 'vitest';
import { fitTokenTemperature } from '../../src/calibrate/token-temperature';
import { startEngine } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { allLogits, tinyModel } from '../model/tiny-model';

beforeAll(startEngine);

/** Texts whose next tokens are drawn from the model at a temperature: that temperature is the right one. */
function drawn(temperature: number, texts: number) {
  const model = tinyModel();
  const random = Random.seed(3);
  const examples = Array.from({ length: texts }, () => {
    const ids = Array.from({ length: 3 + random.integer(5) }, () => random.integer(23));
    const logits = allLogits(model, [{ ids }]);
    const labels = ids.map((_, t) => {
      const weights = [...logits.subarray(t * 23, (t + 1) * 23)].map((z) => Math.exp(z / temperature));
      let u = random.uniform() * weights.reduce((a, b) => a + b, 0);
      return weights.findIndex((w) => (u -= w) < 0);
    });
    return { ids, positions: ids.map((_, t) => t), labels };
  });
  return { model, examples };
}

it.each([0.5, 1, 3])('recovers the temperature that labels were drawn at: %f', (temperature) => {
  const { model, examples } = drawn(temperature, 600);
  const fit = fitTokenTemperature(model, examples);
  expect(fit.tokens).toBe(examples.flatMap(({ labels }) => labels).length);
  expect(Math.abs(Math.log(fit.temperature / temperature))).toBeLessThan(0.1);
  expect(fit.nll_after).toBeLessThanOrEqual(fit.nll_before);
});

it('is where the NLL, computed apart, has no slope', () => {
  const { model, examples } = drawn(2, 40);
  const { temperature, nll_before: before } = fitTokenTemperature(model, examples);
  const nll = (t: number) => {
    const losses = examples.flatMap(({ ids, labels }) => {
      const logits = allLogits(model, [{ ids }]);
      return labels.map((label, i) => {
        const row = [...logits.subarray(i * 23, (i + 1) * 23)].map((z) => z / t);
        return Math.log(row.reduce((sum, z) => sum + Math.exp(z), 0)) - row[label]!;
      });
    });
    return losses.reduce((a, b) => a + b, 0) / losses.length;
  };
  expect(nll(1)).toBeCloseTo(before, 5);
  expect(nll(temperature)).toBeLessThan(Math.min(nll(temperature * 1.02), nll(temperature / 1.02)));
});

it('keeps no tensors', async () => {
  const { model, examples } = drawn(2, 3);
  expect(await tensorsKept(() => fitTokenTemperature(model, examples))).toBe(0);
});
