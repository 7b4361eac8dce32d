import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors';
import { compareRows, type Row } from '../../src/evaluate';
import { signTest } from '../../src/evaluate/compare';

function row(hash: string, probs: number[], label: number, more: Partial<Row> = {}): Row {
  const prediction = probs.indexOf(Math.max(...probs));
  const logprobs = probs.map(Math.log);
  const base = { task: 't', doc_id: hash, doc_hash: hash, prompt_hash: '', truncated: 0 };
  return { ...base, logprobs, probs, label, prediction, correct: prediction === label, ...more };
}

describe('signTest', () => {
  it.each([
    [5, 15, 0.04138946533203125], // scipy.stats.binomtest(min(b, c), b + c, 0.5).pvalue
    [15, 5, 0.04138946533203125],
    [0, 0, 1],
    [0, 4, 0.125],
    [30, 31, 1],
    [7, 7, 1],
    [120, 180, 0.0006342200069283566],
  ])('of %d and %d is %d', (b, c, p) => expect(signTest(b, c)).toBeCloseTo(p, 12));

  it('is a probability that falls as the split grows more uneven', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 400 }), fc.nat(400), (less, more) => {
        const [even, uneven] = [signTest(less, less + more), signTest(less - 1, less + more + 1)];
        expect(uneven).toBeLessThanOrEqual(even + 1e-12);
        expect(uneven).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

describe('compareRows', () => {
  const a = [row('1', [0.9, 0.1], 0), row('2', [0.8, 0.2], 1), row('3', [0.3, 0.7], 1), row('only a', [1, 0], 0)];
  const b = [row('3', [0.6, 0.4], 1), row('2', [0.4, 0.6], 1), row('1', [0.7, 0.3], 0), row('only b', [1, 0], 0)];

  it('joins by content and says what flipped', () => {
    const found = compareRows(a, b, { resamples: 200 });
    expect([found.n, found.only_a, found.only_b]).toEqual([3, 1, 1]);
    expect(found.flips).toEqual([
      { doc_id: '2', doc_hash: '2', label: 1, a: 0, b: 1, change: 'gained' },
      { doc_id: '3', doc_hash: '3', label: 1, a: 1, b: 0, change: 'lost' },
    ]);
    expect(found.mcnemar).toEqual({ right_only_in_a: 1, right_only_in_b: 1, p_value: 1 });
    expect(found.accuracy).toMatchObject({ a: 2 / 3, b: 2 / 3, difference: 0 });
    const brier = (p: number[]) => (2 * p.reduce((sum, q) => sum + (1 - q) ** 2, 0)) / p.length; // q of the right one
    expect(found.brier.a).toBeCloseTo(brier([0.9, 0.2, 0.7]), 12);
    expect(found.brier.difference).toBeCloseTo(brier([0.7, 0.6, 0.4]) - brier([0.9, 0.2, 0.7]), 12);
    expect(found.nll.b).toBeCloseTo(-(Math.log(0.7) + Math.log(0.6) + Math.log(0.4)) / 3, 12);
    const [low, high] = found.nll.interval!;
    expect((low + high) / 2).toBeCloseTo(found.nll.difference, 12);
    expect(high).toBeGreaterThan(low);
  });

  it('compares acc_norm where both have it', () => {
    const by = (...predictions: number[]) =>
      predictions.map((prediction_norm, i) => row(String(i), [0.9, 0.1], 0, { prediction_norm }));
    const { acc_norm } = compareRows(by(0, 1, 1, 0), by(0, 0, 0, 1), { resamples: 50 });
    expect(acc_norm).toMatchObject({ a: 0.5, b: 0.75, difference: 0.25 });
    expect(
      compareRows(
        by(0),
        a.slice(0, 1).map((one) => ({ ...one, doc_hash: '0' })),
      ).acc_norm,
    ).toBeUndefined();
  });

  it('sees no difference between a run and itself, and says so with certainty', () => {
    const { accuracy, conf_ece, flips, mcnemar } = compareRows(a, a);
    expect([accuracy.difference, accuracy.interval, conf_ece.difference]).toEqual([0, [0, 0], 0]);
    expect([flips, mcnemar.p_value]).toEqual([[], 1]);
  });

  it('pairs a content that stands twice in order', () => {
    const twice = [row('x', [0.9, 0.1], 0), row('x', [0.1, 0.9], 0)];
    expect(compareRows(twice, twice)).toMatchObject({ n: 2, flips: [] });
    expect(compareRows(twice, twice.slice(0, 1))).toMatchObject({ n: 1, only_a: 1, only_b: 0 });
  });

  it('refuses runs without a common item', () => {
    expect(() => compareRows(a.slice(0, 1), b.slice(0, 1))).toThrow(UsageError);
  });

  it('has paired intervals: the error of a difference that never varies is 0', () => {
    const sure = Array.from({ length: 40 }, (_, i) => row(String(i), i % 2 ? [0.8, 0.2] : [0.2, 0.8], i % 3 ? 0 : 1));
    const less = sure.map((r) =>
      row(
        r.doc_hash,
        r.probs.map((p) => (p > 0.5 ? 0.7 : 0.3)),
        r.label,
      ),
    );
    const { accuracy, nll } = compareRows(sure, less);
    expect(accuracy.interval).toEqual([0, 0]);
    expect(nll.interval![1] - nll.interval![0]).toBeGreaterThan(0);
  });
});
