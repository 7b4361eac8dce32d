import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import {
  applyTemperature,
  assertDisjoint,
  calibrationFromJson,
  calibrationToJson,
  fitTemperature,
  splitCalibration,
  temperatureNll,
  temperatureReport,
} from '../../src/calibrate';
import { Random } from '../../src/engine/random';
import { argmax, calibrationMetrics } from '../../src/metrics';
import { casesOf, references } from '../metrics/reference';

const rowsOf = (logits: number[][], labels: number[]) => logits.map((z, i) => ({ logits: z, label: labels[i]! }));
const repeat = (z: number[], labels: number[]) => labels.map((label) => ({ logits: z, label }));
const C2 = repeat([2, 0], [0, 0, 0, 1]);

describe('fitTemperature against the reference', () => {
  const statuses = { interior: 'finite', lower: 'at-zero', upper: 'at-infinity', flat: 'no-support' };

  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`has the same optimum, NLL and status: ${name}`, () => {
      for (const c of casesOf(read(), 'temperature')) {
        const rows = rowsOf(c.logits, c.labels);
        const fit = fitTemperature(rows, { bounds: c.bounds });
        expect([c.id, fit.status]).toEqual([c.id, statuses[c.location]]);
        expect(fit.nll_before).toBeCloseTo(c.nll_T1, 10);
        for (const [t, right] of Object.entries(c.nll_probe))
          expect(temperatureNll(rows, Number(t))).toBeCloseTo(right, 9);
        if (c.T_exact === null) {
          expect([fit.temperature, fit.bounded_temperature, fit.applied_temperature]).toEqual([null, null, 1]);
          expect(fit.nll_after).toBeCloseTo(c.nll_opt, 12);
          continue;
        }
        const bounded = fit.bounded_temperature!;
        expect(Math.abs(bounded - c.T_exact), c.id).toBeLessThanOrEqual(c.location === 'interior' ? 1e-6 : 0);
        expect(Math.abs(bounded - c.T_scipy_bounded), c.id).toBeLessThan(1e-4); // its xatol
        if (c.location === 'interior') {
          expect(Math.abs(fit.temperature! - c.T_exact), c.id).toBeLessThan(c.id === 'ts_shift_1e4' ? 1e-6 : 1e-9);
          expect(Math.abs(fit.nll_after - c.nll_opt), c.id).toBeLessThan(1e-7);
        }
        if (c.location === 'lower') expect(fit.temperature).toBe(0);
        if (c.location === 'upper') expect(fit.temperature).toBe(Infinity);
      }
    });

    it.skipIf(skip)(`refuses what the reference rejects: ${name}`, () => {
      const rejects = casesOf(read(), 'reject').filter((c) => c.logits);
      expect(rejects.length).toBeGreaterThan(0);
      for (const c of rejects) {
        const rows = c.labels!.map((label, i) => ({ logits: c.logits![i], label }));
        expect(() => fitTemperature(rows), c.id).toThrow(CalmError);
      }
    });
  }
});

describe('fitTemperature', () => {
  it('C-1: half right and half wrong at the same margin is best uniform', () => {
    const fit = fitTemperature(repeat([4, 0], [0, 1]));
    expect([fit.status, fit.temperature]).toEqual(['at-infinity', Infinity]);
    expect(fit.bounded_temperature).toBe(10);
    expect(temperatureNll(repeat([4, 0], [0, 1]), Infinity)).toBeCloseTo(Math.log(2), 15);
    expect(fitTemperature(repeat([0.3, 0.1, 0.7], [1, 1, 2])).status).toBe('at-infinity');
    expect(fitTemperature(repeat([0.3, 0.2, 0.1], [1])).status).toBe('at-infinity'); // NLL' is exactly 0 at T = Infinity
  });

  it('C-2: converges to 2 / ln 3', () => {
    const fit = fitTemperature(C2);
    expect(fit.status).toBe('finite');
    expect(fit.temperature).toBeCloseTo(2 / Math.log(3), 9);
    expect(fit.temperature).toBeCloseTo(1.820478, 6);
    for (const scale of [1e-6, 1e-3, 1e3, 1e6]) {
      const scaled = fitTemperature(repeat([2 * scale, 0], [0, 0, 0, 1]));
      expect(scaled.status).toBe('finite');
      expect(scaled.temperature! / scale).toBeCloseTo(2 / Math.log(3), 8);
    }
  });

  it('C-3: a search cut short gives no temperature', () => {
    const fit = fitTemperature(C2, { maxEvaluations: 1 });
    expect([fit.status, fit.temperature, fit.bounded_temperature]).toEqual(['not-converged', null, null]);
    expect(fit.applied_temperature).toBe(1);
    expect(fit.nll_after).toBe(fit.nll_before);
    expect(fitTemperature(C2, { maxEvaluations: 5 }).temperature).toBeNull();
  });

  it('C-5: separable data go to 0, and are clamped and flagged', () => {
    const rows = rowsOf([[2, 0], [3, 0]], [0, 0]); // prettier-ignore
    const fit = fitTemperature(rows);
    expect([fit.status, fit.temperature]).toEqual(['at-zero', 0]);
    expect(fit.bounded_temperature).toBe(0.1);
    expect(fit.nll_after).toBeCloseTo((Math.log1p(Math.exp(-20)) + Math.log1p(Math.exp(-30))) / 2, 20);
    expect(Number.isFinite(temperatureNll(rows, 1e-300))).toBe(true);
  });

  it('C-5: a label tied with the largest logit does not stop T on its way to 0', () => {
    expect(fitTemperature(rowsOf([[2, 2, 0], [3, 0, 0]], [1, 0])).status).toBe('at-zero'); // prettier-ignore
    expect(fitTemperature(rowsOf([[5, 5], [3, 0]], [1, 0])).status).toBe('at-zero'); // prettier-ignore
  });

  it('C-7: moves away from 1 and lowers the NLL', () => {
    const fit = fitTemperature(rowsOf([[8, 0, 1], [6, 1, 0], [0, 7, 1], [9, 2, 3]], [0, 0, 1, 2])); // prettier-ignore
    expect(fit.status).toBe('finite');
    expect(Math.abs(fit.temperature! - 1)).toBeGreaterThan(0.5);
    expect(fit.nll_after).toBeLessThan(fit.nll_before - 0.1);
  });

  it('has no support when all logits of each row are equal', () => {
    const fit = fitTemperature(rowsOf([[3, 3], [-1, -1, -1]], [0, 2])); // prettier-ignore
    expect([fit.status, fit.temperature, fit.bounded_temperature]).toEqual(['no-support', null, null]);
    expect(fit.nll_after).toBeCloseTo((Math.log(2) + Math.log(3)) / 2, 15);
  });

  it('fits probabilities as logits log p; a 0 stays 0', () => {
    const p = 1 / (1 + Math.exp(-2));
    const rows = [0, 0, 0, 1].map((label) => ({ probs: [p, 1 - p, 0], label }));
    const fit = fitTemperature(rows);
    expect(fit.temperature).toBeCloseTo(2 / Math.log(3), 8);
    const { metrics_after } = temperatureReport(rows);
    expect(metrics_after.nll).toBeCloseTo(fit.nll_after, 12);
    expect(metrics_after.bins.classwise_total[0]!.mean_confidence).toBe(0);
    expect(fitTemperature([{ probs: [1, 0], label: 0 }]).status).toBe('no-support');
    expect(() => fitTemperature([{ probs: [1, 0], label: 1 }])).toThrow('row 1: the label has probability 0');
  });

  it('takes masks as large as a double holds', () => {
    const mask = -Number.MAX_VALUE;
    const masked = rowsOf(C2.map(({ logits }) => [...logits, mask, mask]), [0, 0, 0, 1]); // prettier-ignore
    const fit = fitTemperature(masked);
    expect(fit.status).toBe('finite');
    expect(fit.temperature).toBeCloseTo(2 / Math.log(3), 8);
  });

  it('finds temperatures far outside the bounds, and clamps them', () => {
    const hot = fitTemperature(repeat([200, 0], [0, 0, 0, 1]));
    expect(hot.temperature).toBeCloseTo(200 / Math.log(3), 6);
    expect(hot.bounded_temperature).toBe(10);
    const cold = fitTemperature(repeat([0.01, 0], [0, 0, 0, 1]));
    expect(cold.temperature).toBeCloseTo(0.01 / Math.log(3), 10);
    expect(cold.bounded_temperature).toBe(0.1);
  });

  it('refuses bounds that are none, and rows as the metrics do', () => {
    for (const bounds of [
      [0, 10],
      [5, 5],
      [1, Infinity],
      [NaN, 1],
    ] as [number, number][]) {
      // prettier-ignore
      expect(() => fitTemperature(C2, { bounds })).toThrow(UsageError);
    }
    expect(() => fitTemperature([])).toThrow('there are no predictions');
    expect(() => fitTemperature([{ logits: ['NaN', 0], label: 0 }])).toThrow('row 1: logits[0] is "NaN"');
    expect(() => temperatureNll(C2, 0)).toThrow(UsageError);
  });

  const row = fc
    .array(fc.integer({ min: -96, max: 96 }), { minLength: 2, maxLength: 5 })
    .map((eighths) => eighths.map((k) => k / 8))
    .chain((logits) => fc.record({ logits: fc.constant(logits), label: fc.nat(logits.length - 1) }));

  it('has an NLL no higher than at any other temperature, and keeps the prediction', () => {
    fc.assert(
      fc.property(
        fc.array(row, { minLength: 1, maxLength: 20 }),
        fc.double({ min: -6, max: 6, noNaN: true }),
        (rows, x) => {
          const fit = fitTemperature(rows);
          expect(fit.status).not.toBe('not-converged');
          const other = Math.exp(x);
          if (fit.temperature) {
            expect(temperatureNll(rows, fit.temperature)).toBeLessThanOrEqual(temperatureNll(rows, other) + 1e-12);
          }
          if (fit.bounded_temperature && other >= 0.1 && other <= 10) {
            expect(fit.nll_after).toBeLessThanOrEqual(temperatureNll(rows, other) + 1e-12);
          }
          for (const { logits } of rows) {
            const after = applyTemperature(logits, fit.applied_temperature);
            expect(after[argmax(logits)]).toBe(Math.max(...after));
          }
        },
      ),
    );
  });

  it('says so when the optimum is no double', () => {
    const fit = fitTemperature(rowsOf([[0, 0, 5e-324], [-3e-222, 4e-262]], [0, 1])); // prettier-ignore
    expect([fit.status, fit.temperature]).toEqual(['not-converged', null]);
  });

  it('fits 100,000 rows of five logits within 2 seconds', () => {
    const random = Random.seed(11);
    const rows = Array.from({ length: 100_000 }, () => {
      const logits = [0, 1, 2, 3, 4].map(() => 3 * random.normal());
      return { logits, label: random.uniform() < 0.5 ? argmax(logits) : random.integer(5) };
    });
    const start = performance.now();
    expect(fitTemperature(rows).status).toBe('finite');
    expect(performance.now() - start).toBeLessThan(2000);
  });
});

describe('temperatureReport', () => {
  it('has the contract of calm fit temperature, at the bounded temperature', () => {
    const report = temperatureReport(C2, { bins: 15 });
    for (const key of ['status', 'temperature', 'bounded_temperature', 'nll_before', 'nll_after']) {
      expect(report).toHaveProperty(key);
    }
    expect(report.metrics_before).toEqual(calibrationMetrics(C2, { bins: 15 }));
    expect(report.metrics_after.convention.bins).toBe(15);
    expect(report.applied_temperature).toBe(report.bounded_temperature);
    expect(report.metrics_before.nll).toBeCloseTo(report.nll_before, 12);
    expect(report.metrics_after.nll).toBeCloseTo(report.nll_after, 12);
    expect(report.metrics_after.accuracy).toBe(report.metrics_before.accuracy);
    expect(report.metrics_before.conf_ece).toBeCloseTo(0.1307970779, 9);
    expect(report.metrics_after.conf_ece).toBeLessThan(1e-9);
  });
});

describe('applyTemperature', () => {
  it('is softmax(z / T), with its limits', () => {
    expect(applyTemperature([2, 0], 2)[0]).toBeCloseTo(1 / (1 + Math.exp(-1)), 15);
    expect(applyTemperature([2, 0], Infinity)).toEqual([0.5, 0.5]);
    expect(applyTemperature([2, 0], 0)).toEqual([1, 0]);
    for (const t of [-1, NaN]) expect(() => applyTemperature([2, 0], t)).toThrow(UsageError);
  });
});

describe('splitCalibration', () => {
  it('halves the data at random, repeatably', () => {
    const items = Array.from({ length: 101 }, (_, i) => i);
    const split = (seed: number) => splitCalibration(items, Random.seed(seed).stream('split'));
    const { fit, check } = split(1);
    expect([fit.length, check.length]).toEqual([51, 50]);
    expect([...fit, ...check].sort((a, b) => a - b)).toEqual(items);
    expect(split(1)).toEqual(split(1));
    expect(split(1)).not.toEqual(split(2));
    expect(() => assertDisjoint(fit, check)).not.toThrow();
    expect(() => splitCalibration([1], Random.seed(1))).toThrow(CalmError);
  });
});

describe('assertDisjoint', () => {
  it('C-8: refuses to test on what was fitted on', () => {
    expect(() => assertDisjoint(['a', 'b'], ['c'])).not.toThrow();
    expect(() => assertDisjoint(['a', 'b', 'c'], ['c', 'c', 'd', 'a'])).toThrow(UsageError);
    expect(() => assertDisjoint(['a', 'b', 'c'], ['c', 'c', 'd', 'a'])).toThrow('2 item(s)');
    expect(() => assertDisjoint([1, 2, 3, 4], [4, 3, 2, 1])).toThrow('4, 3, 2, …');
  });
});

describe('calibration files', () => {
  it.each([
    ['finite', C2],
    ['at-infinity', repeat([4, 0], [0, 1])],
    ['at-zero', repeat([4, 0], [0])],
    ['no-support', repeat([1, 1], [0])],
  ])('come back as they went: %s', (status, rows) => {
    const fit = fitTemperature(rows);
    expect(fit.status).toBe(status);
    expect(calibrationFromJson(JSON.parse(calibrationToJson(fit)))).toEqual(fit);
  });

  it('are checked', () => {
    const fit = JSON.parse(calibrationToJson(fitTemperature(C2))) as Record<string, unknown>;
    expect(() => calibrationFromJson({ ...fit, method: 'platt' })).toThrow('not a temperature calibration: method');
    expect(() => calibrationFromJson({ ...fit, version: 2 })).toThrow('version');
    expect(() => calibrationFromJson({ ...fit, temperature: 'hot' })).toThrow('temperature');
    expect(() => calibrationFromJson({ ...fit, applied_temperature: -1 })).toThrow('applied_temperature');
    expect(() => calibrationFromJson({ ...fit, applied_temperature: undefined })).toThrow(CalmError);
    expect(() => calibrationFromJson('T = 2')).toThrow('not a temperature calibration: it');
  });
});
