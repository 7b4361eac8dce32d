import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc } from '../../../src/calibrate/posthoc';
import { Random } from '../../../src/engine/random';
import { repeat } from './cases';

const levels = [
  ...repeat([1, 0, 0], [0, 0, 0, 0, 0, 1, 1, 1, 1, 2]),
  ...repeat([0, 1, 0], [0, 1, 1, 1, 2]),
  ...repeat([0, 0, 1], [0, 1, 2, 2, 2, 2, 2, 2]),
];

describe('matrix scaling', () => {
  it('gives the rates at as many levels as there are logits', () => {
    const fit = fitPosthoc('matrix', levels);
    expect(fit.status).toBe('under-determined'); // the three logits sum to 1, as does the bias's 1
    const right = [[0.5, 0.4, 0.1], [0.2, 0.6, 0.2], [0.125, 0.125, 0.75]]; // prettier-ignore
    right.forEach((row, level) => {
      const probs = applyPosthoc(fit, { logits: [0, 1, 2].map((k) => (k === level ? 1 : 0)) });
      row.forEach((p, k) => expect(probs[k]).toBeCloseTo(p, 9));
    });
  });

  it('is given with columns that sum to 0 off the diagonal, and biases that sum to 0', () => {
    const random = Random.seed(5);
    const rows = Array.from({ length: 200 }, () => ({
      logits: [0, 1, 2].map(() => 2 * random.normal()),
      label: random.integer(3),
    }));
    for (const options of [{}, { lambda: 0.01 }, { mu: 0.01 }, { lambda: 0.3, mu: 0.2 }]) {
      const { status, weights, biases } = fitPosthoc('matrix', rows, options);
      expect(status).toBe('converged');
      for (const k of [0, 1, 2]) {
        expect(weights.reduce((sum, row, j) => (j === k ? sum : sum + row[k]!), 0)).toBeCloseTo(0, 10);
      }
      expect(biases.reduce((a, b) => a + b)).toBeCloseTo(0, 10);
    }
  });

  it('goes from matrix to diagonal as lambda grows, and the biases to 0 as mu does', () => {
    const offDiagonal = (weights: number[][]) =>
      Math.max(...weights.flatMap((row, j) => row.map((w, k) => (j === k ? 0 : Math.abs(w)))));
    const at = (lambda: number, mu: number) => fitPosthoc('matrix', levels, { lambda, mu });
    const sizes = [1e-3, 1e-1, 10, 1e4].map((lambda) => offDiagonal(at(lambda, lambda).weights));
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
    expect(sizes[3]).toBeLessThan(1e-4);
    expect(Math.max(...at(1e4, 1e4).biases.map(Math.abs))).toBeLessThan(1e-4);
    const nlls = [0, 1e-3, 1e-1, 10].map((lambda) => at(lambda, lambda).nll_after);
    expect(nlls).toEqual([...nlls].sort((a, b) => a - b));
    expect(at(10, 10).nll_after).toBeLessThan(at(10, 10).nll_before); // the identity has no penalty
  });

  it('is stationary under the penalty that is written: lambda / (K (K - 1)) and mu / K', () => {
    const [lambda, mu] = [0.2, 0.1];
    const { weights, biases } = fitPosthoc('matrix', levels, { lambda, mu });
    const loss = (change: (w: number[][], b: number[]) => void) => {
      const [w, b] = [weights.map((row) => [...row]), [...biases]];
      change(w, b);
      const nll = levels.map(({ logits, label }) => {
        const s = w.map((row, j) => row.reduce((sum, x, k) => sum + x * logits[k]!, b[j]!));
        return Math.log(s.reduce((sum, x) => sum + Math.exp(x), 0)) - s[label]!;
      });
      const off = w.flatMap((row, j) => row.filter((_, k) => k !== j)).reduce((sum, x) => sum + x * x, 0);
      const bias = b.reduce((sum, x) => sum + x * x, 0);
      return nll.reduce((x, y) => x + y, 0) / levels.length + (lambda / 6) * off + (mu / 3) * bias;
    };
    for (const j of [0, 1, 2]) {
      const slope = (loss((_, b) => (b[j]! += 1e-5)) - loss((_, b) => (b[j]! -= 1e-5))) / 2e-5;
      expect(slope).toBeCloseTo(0, 9);
      for (const k of [0, 1, 2]) {
        const by = (h: number) => loss((w) => (w[j]![k]! += h));
        expect((by(1e-5) - by(-1e-5)) / 2e-5).toBeCloseTo(0, 9);
      }
    }
  });

  it('of probabilities is Dirichlet calibration', () => {
    const rows = levels.map(({ logits, label }) => ({ probs: logits.map((z) => (z === 1 ? 0.6 : 0.2)), label }));
    const fit = fitPosthoc('matrix', rows, { lambda: 0.01, mu: 0.01 });
    const logs = rows.map(({ probs, label }) => ({ logits: probs.map((p) => Math.log(p)), label }));
    const other = fitPosthoc('matrix', logs, { lambda: 0.01, mu: 0.01 });
    expect(fit.weights).toEqual(other.weights);
    expect(applyPosthoc(fit, { probs: [1, 0, 0] }).every((p) => p > 0)).toBe(true);
  });
});
