import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../../src/base/errors';
import {
  applyPosthoc,
  fitPosthoc,
  POSTHOC,
  posthocFromJson,
  type PosthocName,
  posthocReport,
  posthocToJson,
} from '../../../src/calibrate/posthoc';
import { Random } from '../../../src/engine/random';
import { argmax, calibrationMetrics, checkPredictions, softmax } from '../../../src/metrics';
import { type LogitRow, repeat, VARIANTS } from './cases';

const nameOf = ({ method, options }: (typeof VARIANTS)[number]) => `${method} ${JSON.stringify(options)}`;

/** Rows whose labels are drawn from softmax(z / 2). */
function sample(n: number, classes: number, seed: number): LogitRow[] {
  const random = Random.seed(seed);
  return Array.from({ length: n }, () => {
    const logits = Array.from({ length: classes }, () => 3 * random.normal());
    let left = random.uniform();
    return {
      logits,
      label: Math.max(
        0,
        softmax(logits, 2).findIndex((p) => (left -= p) < 0),
      ),
    };
  });
}

const numbers = (value: unknown): number[] =>
  typeof value === 'number' ? [value] : value && typeof value === 'object' ? Object.values(value).flatMap(numbers) : [];

const rowsOf = (classes: number) =>
  fc.array(
    fc.record({
      logits: fc.array(fc.integer({ min: -160, max: 160 }).map((k) => k / 8), { minLength: classes, maxLength: classes }),
      label: fc.nat(classes - 1),
    }),
    { minLength: 1, maxLength: 25 },
  ); // prettier-ignore

let large: LogitRow[] | undefined;

describe('every method', () => {
  for (const variant of VARIANTS) {
    const { method, options } = variant;

    it(`gives probability vectors and finite parameters on any rows: ${nameOf(variant)}`, () => {
      fc.assert(
        fc.property(fc.integer({ min: 2, max: 4 }).chain(rowsOf), (rows) => {
          const { nll_before: _before, nll_after, ...fit } = fitPosthoc(method, rows, options);
          expect(numbers(fit).every(Number.isFinite)).toBe(true);
          expect(nll_after).toBeGreaterThanOrEqual(0); // not NaN
          for (const { logits } of rows.slice(0, 5)) {
            const probs = applyPosthoc({ ...fit, nll_before: 0, nll_after }, { logits });
            expect(probs).toHaveLength(logits.length);
            expect(probs.every((p) => p >= 0 && p <= 1 + 1e-12)).toBe(true);
            expect(probs.reduce((a, b) => a + b)).toBeCloseTo(1, 9);
          }
        }),
        { numRuns: 60 },
      );
    });

    it(`comes back from JSON as it went: ${nameOf(variant)}`, () => {
      for (const rows of [sample(60, 3, 1), sample(30, 2, 2), repeat([1, 2], [1])]) {
        const fit = fitPosthoc(method, rows, options);
        const read = posthocFromJson(JSON.parse(posthocToJson(fit)));
        expect(read).toEqual(fit);
        expect(applyPosthoc(read, { logits: rows[0]!.logits })).toEqual(applyPosthoc(fit, { logits: rows[0]!.logits }));
      }
    });

    it(`fits 100,000 rows of five logits within 2 seconds: ${nameOf(variant)}`, () => {
      const rows = (large ??= sample(100_000, 5, 11));
      const start = performance.now();
      expect(fitPosthoc(method, rows, options).status).toBe('converged');
      expect(performance.now() - start).toBeLessThan(2000);
    });
  }

  it('that contains the identity ends with an NLL no higher than before', () => {
    const contains = (classes: number): [PosthocName, object][] => [
      ['vector', {}],
      ['matrix', {}],
      ['matrix', { lambda: 0.1, mu: 0.1 }],
      ['ets', {}],
      ...(classes === 2 ? ([['platt', {}], ['beta', {}], ['isotonic', {}]] as [PosthocName, object][]) : []),
    ]; // prettier-ignore
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 4 }).chain(rowsOf), (rows) => {
        for (const [method, options] of contains(rows[0]!.logits.length)) {
          const { status, nll_before, nll_after } = fitPosthoc(method, rows, options);
          if (status === 'separable' || status === 'class-absent') continue; // smoothed targets
          expect(nll_after).toBeLessThanOrEqual(nll_before + 1e-9);
        }
      }),
    );
  });

  it('lowers the calibration error of overconfident rows, on others than it was fitted to', () => {
    const [rows, others] = [sample(3000, 4, 5), sample(3000, 4, 6)];
    const before = calibrationMetrics(others).conf_ece;
    for (const { method, options } of VARIANTS) {
      const fit = fitPosthoc(method, rows, options);
      const after = others.map(({ logits, label }) => ({ probs: applyPosthoc(fit, { logits }), label }));
      expect(calibrationMetrics(after).conf_ece).toBeLessThan(before / 2);
    }
  });

  it('takes rows that are checked already, and probabilities', () => {
    const rows = sample(50, 3, 7);
    for (const { method, options } of VARIANTS) {
      expect(fitPosthoc(method, checkPredictions(rows), options)).toEqual(fitPosthoc(method, rows, options));
      const probs = rows.map(({ logits, label }) => ({ probs: softmax(logits), label }));
      const fit = fitPosthoc(method, probs, options);
      expect(applyPosthoc(fit, { probs: [0.5, 0.2, 0.3] }).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
    }
  });
});

describe('rows of different lengths', () => {
  const rows = [...repeat([1, 0], [0, 1, 0]), ...repeat([0, 2, 1], [1, 1, 0])];

  for (const variant of VARIANTS) {
    it(`${variant.ragged ? 'are taken' : 'are refused, by name'}: ${nameOf(variant)}`, () => {
      const fit = () => fitPosthoc(variant.method, rows, variant.options);
      if (variant.ragged) expect(applyPosthoc(fit(), { logits: [1, 2, 3, 4] })).toHaveLength(4);
      else expect(fit).toThrow('row 4: 3 options, where the first row has 2');
    });
  }

  it('are refused by a calibrator of another number of classes', () => {
    for (const { method, options } of VARIANTS.filter(({ ragged }) => !ragged)) {
      const fit = fitPosthoc(method, sample(40, 3, 1), options);
      expect(() => applyPosthoc(fit, { logits: [1, 2] })).toThrow('2 options, but the calibrator was fitted to 3');
    }
  });
});

describe('bad input', () => {
  it('is named', () => {
    for (const { method, options } of VARIANTS) {
      const fit = (rows: unknown[]) => () => fitPosthoc(method, rows, options);
      expect(fit([])).toThrow('there are no predictions');
      expect(fit([{ logits: [1, NaN], label: 0 }])).toThrow('row 1: logits[1] is NaN, not a finite number');
      expect(fit([...repeat([1, 2], [0]), { logits: [1, Infinity], label: 0 }])).toThrow(
        'row 2: logits[1] is Infinity',
      );
      expect(fit(repeat([1, 2], [2]))).toThrow('row 1: label is 2');
      expect(fit(repeat([1, 2], [-1]))).toThrow('row 1: label is -1');
      expect(fit([{ probs: [0.5, 0.6], label: 0 }])).toThrow('sum to 1.1');
      const good = fitPosthoc(method, sample(40, 2, 1), options);
      expect(() => applyPosthoc(good, { logits: [NaN, 0] })).toThrow('the row: logits[0] is NaN');
      expect(() => applyPosthoc(good, { probs: [0.5, 0.4] })).toThrow('the row: the probabilities sum to 0.9');
    }
    const where = (row: number) => `line ${row + 7}`;
    expect(() => fitPosthoc('vector', [{ logits: [1], label: 0 }], { where })).toThrow('line 7: has 1 option(s)');
  });

  it('names unknown methods and options', () => {
    expect(() => fitPosthoc('plat' as 'platt', sample(4, 2, 1))).toThrow('unknown method "plat"');
    const wrong = { lamda: 1 } as object;
    expect(() => fitPosthoc('matrix', sample(4, 2, 1), wrong)).toThrow('unknown option of matrix "lamda"');
    expect(() => fitPosthoc('matrix', sample(4, 2, 1), { lambda: -1 })).toThrow(UsageError);
    expect(() => fitPosthoc('histogram', sample(4, 2, 1), { bins: 0 })).toThrow('option bins');
    expect(() => posthocReport('vector', sample(4, 2, 1), {}, 0)).toThrow('the number of bins is 0');
  });

  it('that scaling cannot take is refused', () => {
    expect(() => fitPosthoc('vector', repeat([1, -1e101], [0]))).toThrow('row 1: logits[1] is -1e+101, too large');
    const fit = fitPosthoc('vector', sample(40, 2, 1));
    expect(() => applyPosthoc({ ...fit, weights: [1e200, 1] }, { logits: [1e200, 0] })).toThrow('are no numbers');
    expect(() => fitPosthoc('matrix', repeat(new Array<number>(40).fill(0), [0]))).toThrow('1640 parameters');
  });
});

describe('posthocReport', () => {
  it('has the metrics of the same rows before and after', () => {
    const rows = sample(200, 3, 9);
    for (const { method, options } of VARIANTS) {
      const { metrics_before, metrics_after, ...fit } = posthocReport(method, rows, options, 15);
      expect(fit).toEqual(fitPosthoc(method, rows, options));
      expect(metrics_before).toEqual(calibrationMetrics(rows, { bins: 15 }));
      expect([metrics_after.n, metrics_after.convention.bins]).toEqual([200, 15]);
      if (Number.isFinite(fit.nll_after)) expect(metrics_after.nll).toBeCloseTo(fit.nll_after, 12);
      const right = rows.filter(({ logits, label }) => argmax(applyPosthoc(fit, { logits })) === label);
      expect(metrics_after.accuracy).toBeCloseTo(right.length / 200, 12);
    }
  });
});

describe('posthocFromJson', () => {
  it('says what is wrong', () => {
    const json = (method: PosthocName) =>
      JSON.parse(posthocToJson(fitPosthoc(method, sample(40, 3, 1)))) as Record<string, unknown>;
    const reading = (value: unknown) => () => posthocFromJson(value);
    expect(reading('w = 1')).toThrow('not a post-hoc calibrator: it');
    expect(reading({ ...json('vector'), method: 'temperature' })).toThrow('method');
    expect(reading({ ...json('vector'), version: 2 })).toThrow('version');
    expect(reading({ ...json('vector'), weights: [1, 2] })).toThrow('one weight and one bias for each class');
    expect(reading({ ...json('matrix'), weights: [[1, 2], [3, 4], [5, 6]] })).toThrow('a square matrix'); // prettier-ignore
    expect(reading({ ...json('platt'), maps: [] })).toThrow('one map a class');
    expect(reading({ ...json('beta'), maps: [{ status: 'converged', a: -1, b: 1, c: 0 }] })).toThrow('maps.0.a');
    const falling = { status: 'converged', scores: [0.1, 0.2], values: [0.9, 0.1] };
    expect(reading({ ...json('isotonic'), maps: [falling, falling, falling] })).toThrow('ascending scores');
    const short = { status: 'converged', edges: [0.5], values: [0.1], counts: [1] };
    expect(reading({ ...json('histogram'), maps: [short, short, short] })).toThrow('ascending edges');
    expect(reading({ ...json('ets'), weights: [1, 1, 1] })).toThrow('weights sum to 1');
    for (const name of Object.keys(POSTHOC) as PosthocName[]) {
      expect(reading({ ...json(name), status: 'splendid' })).toThrow(CalmError);
      expect(reading({ ...json(name), n: 0 })).toThrow('n');
    }
  });
});
