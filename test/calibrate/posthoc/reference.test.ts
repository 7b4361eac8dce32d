import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { applyPosthoc, fitPosthoc, type PosthocFit, type PosthocName } from '../../../src/calibrate/posthoc';
import { maxAbsDifference } from '../../shared';

// What test/peers/record_posthoc.py has recorded of scikit-learn, SciPy, PyTorch and numpy.
const FOLDER = path.join(__dirname, '../../fixtures/posthoc');

interface Expected {
  nll: number | 'Infinity';
  probs: number[][];
  [parameter: string]: unknown;
}

interface Case {
  id: string;
  logits?: number[][];
  probs?: number[][];
  labels: number[];
  nll: number;
  expected: Record<string, Expected>;
}

const cases = fs
  .readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .map((file) => JSON.parse(fs.readFileSync(path.join(FOLDER, file), 'utf8')) as Case);

/** Variants by the name they have in the fixtures. */
const VARIANTS: Record<string, { method: PosthocName; options?: object; parameters: number; probs: number }> = {
  vector: { method: 'vector', parameters: 1e-7, probs: 1e-8 },
  matrix: { method: 'matrix', parameters: 1e-7, probs: 1e-8 },
  matrix_odir: { method: 'matrix', options: { lambda: 0.1, mu: 0.05 }, parameters: 1e-7, probs: 1e-8 },
  platt: { method: 'platt', parameters: 1e-8, probs: 1e-9 },
  platt_smoothed: { method: 'platt', options: { targets: 'smoothed' }, parameters: 1e-8, probs: 1e-9 },
  platt_top: { method: 'platt', options: { construction: 'top-label' }, parameters: 1e-8, probs: 1e-9 },
  beta: { method: 'beta', parameters: 1e-7, probs: 1e-8 },
  isotonic: { method: 'isotonic', parameters: 1e-12, probs: 1e-12 },
  isotonic_top: { method: 'isotonic', options: { construction: 'top-label' }, parameters: 1e-12, probs: 1e-12 },
  histogram: { method: 'histogram', parameters: 1e-12, probs: 1e-12 },
  histogram_mass: {
    method: 'histogram',
    options: { binning: 'equal-mass', bins: 8 },
    parameters: 1e-12,
    probs: 1e-12,
  },
  ets: { method: 'ets', parameters: 1e-7, probs: 1e-8 },
};

const rowsOf = ({ logits, probs, labels }: Case) =>
  labels.map((label, i) => (logits ? { logits: logits[i]!, label } : { probs: probs![i]!, label }));

/** The largest difference of numbers that lie in the same places of two nested structures; only places in `right` count. */
function difference(found: unknown, right: unknown): number {
  if (typeof right === 'number') return typeof found === 'number' ? Math.abs(found - right) : Infinity;
  const entries = Object.entries(right as object);
  if (Array.isArray(right) && (found as unknown[]).length !== right.length) return Infinity;
  return Math.max(0, ...entries.map(([key, value]) => difference((found as Record<string, unknown>)[key], value)));
}

for (const c of cases) {
  describe(`fits as the reference does: ${c.id}`, () => {
    for (const [name, { nll, probs, ...parameters }] of Object.entries(c.expected)) {
      it(name, () => {
        const { method, options, ...tolerance } = VARIANTS[name]!;
        const rows = rowsOf(c);
        const fitted: PosthocFit = fitPosthoc(method, rows, options ?? {});
        expect(fitted.nll_before).toBeCloseTo(c.nll, 10);
        expect(difference(fitted, parameters)).toBeLessThan(tolerance.parameters);
        if (nll === 'Infinity') expect(fitted.nll_after).toBe(Infinity);
        else expect(Math.abs(fitted.nll_after - nll)).toBeLessThan(tolerance.probs);
        probs.forEach((right, i) => {
          expect(maxAbsDifference(applyPosthoc(fitted, rows[i]!), right)).toBeLessThan(tolerance.probs);
        });
      });
    }
  });
}
