import { beforeAll, describe, expect, it } from 'vitest';
import { Random, startEngine, tf } from '../../src/engine';
import { drawTokens, type Sampling } from '../../src/model/sample';

beforeAll(() => startEngine());

const VOCAB = 1500; // neither a multiple of what is summed together, nor below what is ranked
const random = Random.seed(2).stream('logits');
/** Spread over so little that a nucleus needs many tokens. */
const rows = [0.5, 3].map((scale) => Float32Array.from({ length: VOCAB }, () => scale * random.normal()));
const us = [0, 1e-9, 0.2, 0.5, 0.77, 0.999999, 1 - 2 ** -53];

const draw = (sampling: Sampling) => {
  const logits = tf.tensor2d(Float32Array.from(rows.flatMap((row) => [...row])), [rows.length, VOCAB]);
  const draws = rows.flatMap((_, row) => us.map((u) => ({ row, u, text: [] })));
  const ids = drawTokens(logits, draws, sampling).map(({ id }) => id);
  logits.dispose();
  return rows.map((_, row) => ids.slice(row * us.length, (row + 1) * us.length));
};

/** The token at u of the cumulative distribution over what is kept, in the order given. */
function at(weights: readonly { id: number; w: number }[], u: number): number {
  const total = weights.reduce((sum, { w }) => sum + w, 0);
  let left = u * total;
  return (weights.find(({ w }) => (left -= w) < 0) ?? weights.at(-1)!).id;
}

describe('a token is at u of the cumulative distribution', () => {
  it.each([0.7, 1, 1.9])('of all tokens by id, at temperature %d', (temperature) => {
    const found = draw({ temperature });
    rows.forEach((row, r) => {
      const weights = [...row].map((z, id) => ({ id, w: Math.exp(z / temperature) }));
      us.forEach((u, i) => expect(Math.abs(found[r]![i]! - at(weights, u)), `u = ${u}`).toBeLessThanOrEqual(u > 0.99 ? 1 : 0)); // prettier-ignore
    });
  });

  it.each([
    { topP: 0.95 },
    { topP: 0.4 },
    { topK: 700 },
    { topK: 900, topP: 0.9 },
    { minP: 0.02 },
    { topK: 20, minP: 0.5 },
  ])('of what %o keeps, the most likely first, however many those are', (filter) => {
    const { topK = Infinity, topP = 1, minP = 0 } = filter as Sampling;
    const found = draw({ temperature: 1.2, ...filter });
    rows.forEach((row, r) => {
      const ranked = [...row].map((z, id) => ({ id, w: Math.exp((z - Math.max(...row)) / 1.2) })).sort((a, b) => b.w - a.w || a.id - b.id).slice(0, topK); // prettier-ignore
      const mass = ranked.reduce((sum, { w }) => sum + w, 0);
      let sum = 0;
      const kept = ranked.filter(({ w }) => w >= minP && sum < topP * mass && (sum += w) > 0);
      const rank = (id: number) => kept.findIndex((one) => one.id === id);
      us.forEach((u, i) => expect(Math.abs(rank(found[r]![i]!) - rank(at(kept, u))), `u = ${u}`).toBeLessThanOrEqual(u > 0.99 ? 1 : 0)); // prettier-ignore
    });
  });
});

it('a masked token is never drawn, and the log p is of the logits as they are', () => {
  const logits = tf.tensor2d([[0, -Infinity, Math.log(3), -Infinity]]);
  const draws = us.map((u) => ({ row: 0, u, text: [2] }));
  for (const sampling of [
    { temperature: 1 },
    { temperature: 1, topP: 0.99 },
    { temperature: 2, repetitionPenalty: 9 },
  ]) {
    for (const { id, logprob } of drawTokens(logits, draws, sampling)) {
      expect([0, 2]).toContain(id);
      expect(logprob).toBeCloseTo(Math.log(id === 0 ? 0.25 : 0.75), 6);
    }
  }
});
