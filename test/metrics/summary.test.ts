import { describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { Random } from '../../src/engine/random';
import { calibrationMetrics, confEce, confidenceMetrics, mce, smoothEce } from '../../src/metrics';
import { casesOf, references, tolerance } from './reference';

function holdsNaN(value: unknown): boolean {
  if (typeof value === 'number') return Number.isNaN(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsNaN);
}

describe('calibrationMetrics', () => {
  for (const { name, skip, read } of references) {
    it.skipIf(skip)(`agrees with the reference: ${name}`, () => {
      for (const c of casesOf(read(), 'probs')) {
        for (const bins of [10, 15] as const) {
          const got = calibrationMetrics(
            c.probs.map((probs, i) => ({ probs, label: c.labels[i]! })),
            { bins },
          );
          const near = (a: number, b: number) => expect(Math.abs(a - b), c.id).toBeLessThanOrEqual(tolerance(got.n));
          const right = c.bins[`${bins}`];
          expect(got.n).toBe(c.labels.length);
          near(got.accuracy, c.accuracy);
          near(got.conf_ece, right.ge_lt.ece);
          near(got.mce, right.ge_lt.mce);
          near(got.adaptive_ece, right.adaptive.chunk_array_split);
          near(got.cw_ece, c.classwise[`${bins}`].ge_lt.mean);
          near(got.brier, c.brier_sum);
          if (c.nll === 'Infinity') expect(got.nll).toBe(Infinity);
          else near(got.nll, c.nll);
          expect(got.bins.confidence.map(({ count }) => count)).toEqual(
            right.ge_lt.reliability.map(({ count }) => count),
          );
          expect(holdsNaN(got), c.id).toBe(false);
        }
      }
    });

    it.skipIf(skip)(`refuses what the reference rejects: ${name}`, () => {
      const rejects = casesOf(read(), 'reject');
      expect(rejects.length).toBeGreaterThanOrEqual(7);
      for (const c of rejects) {
        const metrics = () => {
          if (c.conf) return confidenceMetrics({ confidence: c.conf, correct: c.correct! }, { bins: c.n_bins });
          const rows = c.probs ?? c.logits!;
          return calibrationMetrics(
            c.labels!.map((label, i) => (c.probs ? { probs: rows[i], label } : { logits: rows[i], label })),
          );
        };
        expect(metrics, c.id).toThrow(CalmError);
      }
    });
  }

  const rows = [
    { probs: [0.7, 0.2, 0.1], label: 0 },
    { probs: [0.1, 0.9], label: 0 },
    { probs: [0.25, 0.25, 0.25, 0.25], label: 3 },
  ];

  it('has exactly the keys of the contract, in its order', () => {
    const got = calibrationMetrics(rows);
    expect(Object.keys(got)).toEqual([
      ...[
        'n',
        'accuracy',
        'conf_ece',
        'cw_ece',
        'adaptive_ece',
        'mce',
        'rms_ece',
        'smooth_ece',
        'brier',
        'nll',
        'auroc',
      ],
      ...['bins', 'convention'],
    ]);
    expect(Object.keys(got.bins)).toEqual(['confidence', 'classwise_total']);
    expect(Object.keys(got.bins.confidence[0]!)).toEqual(['lo', 'hi', 'count', 'mean_confidence', 'accuracy']);
    expect(got.bins.confidence.reduce((n, { count }) => n + count, 0)).toBe(3);
    expect(got.bins.classwise_total.reduce((n, { count }) => n + count, 0)).toBe(9);
  });

  it('takes rows with different numbers of options', () => {
    const got = calibrationMetrics(rows);
    expect(got.accuracy).toBeCloseTo(1 / 3, 12);
    expect(got.conf_ece).toBeCloseTo((0.3 + 0.9 + 0.25) / 3, 12);
    expect(got.nll).toBeCloseTo(0 - (Math.log(0.7) + Math.log(0.1) + Math.log(0.25)) / 3, 12);
  });

  it('M-12: names its convention, which two runs with other bins do not share', () => {
    const [ten, fifteen] = [calibrationMetrics(rows).convention, calibrationMetrics(rows, { bins: 15 }).convention];
    expect([ten.bins, fifteen.bins, ten.n, ten.kind]).toEqual([10, 15, 3, 'probs']);
    for (const key of ['rule', 'norm', 'mass', 'confidence', 'classwise', 'adaptive', 'tie_rule'] as const) {
      expect(ten[key].length).toBeGreaterThan(3);
    }
    expect(calibrationMetrics([{ logits: [0, 1], label: 1 }]).convention.kind).toBe('logits');
  });

  it('M-4: logits within [0, 1] are logits', () => {
    const { bins } = calibrationMetrics([{ logits: [0, 1], label: 1 }, { logits: [1, 0], label: 0 }]); // prettier-ignore
    expect(bins.confidence[7]!.mean_confidence).toBeCloseTo(0.731059, 6);
  });

  it('gives null, not NaN, for the AUROC of one class', () => {
    expect(calibrationMetrics([{ probs: [1, 0], label: 0 }]).auroc).toBeNull();
    expect(holdsNaN(calibrationMetrics([{ probs: [1, 0], label: 1 }]))).toBe(false);
  });

  it('does not depend on the order of rows', () => {
    const random = Random.seed(5);
    const many = Array.from({ length: 60 }, () => ({
      logits: [0, 1, 2, 3].map(() => 3 * random.normal()),
      label: random.integer(4),
    }));
    const [a, b] = [calibrationMetrics(many), calibrationMetrics(random.shuffle(many))];
    for (const key of ['accuracy', 'conf_ece', 'cw_ece', 'adaptive_ece', 'mce', 'rms_ece', 'smooth_ece'] as const) {
      expect(b[key]).toBeCloseTo(a[key], 12);
    }
    expect([b.brier, b.nll, b.auroc].map((x) => x!.toFixed(10))).toEqual(
      [a.brier, a.nll, a.auroc].map((x) => x!.toFixed(10)),
    );
  });

  it('measures 100,000 rows of five options within 3 seconds', () => {
    const random = Random.seed(1);
    const many = Array.from({ length: 100_000 }, (_, i) => ({
      logits: [0, 1, 2, 3, 4].map(() => 4 * random.uniform()),
      label: i % 5,
    }));
    const start = performance.now();
    expect(calibrationMetrics(many).n).toBe(100_000);
    expect(performance.now() - start).toBeLessThan(3000);
  });
});

describe('confidenceMetrics', () => {
  it('gathers the errors of confidences', () => {
    const [confidence, correct] = [[0.95, 1, 0.2], [1, 0, 0]]; // prettier-ignore
    const got = confidenceMetrics({ confidence, correct });
    expect(got.conf_ece).toBe(confEce(confidence, correct));
    expect(got.mce).toBe(mce(confidence, correct));
    expect(got.smooth_ece).toBe(smoothEce(confidence, correct));
    expect(got.auroc).toBe(0.5);
    expect(got.accuracy).toBeCloseTo(1 / 3, 12);
    expect([got.n, got.convention.n, got.bins.confidence.length]).toEqual([3, 3, 10]);
  });

  it('refuses no pairs', () => {
    expect(() => confidenceMetrics({ confidence: [], correct: [] })).toThrow('there are no predictions');
  });
});
