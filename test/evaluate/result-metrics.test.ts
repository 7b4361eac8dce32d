import { describe, expect, it } from 'vitest';
import { Random } from '../../src/engine/random';
import { summariseRows, summariseTopics } from '../../src/evaluate/result-metrics';
import type { Row } from '../../src/evaluate';
import { argmax, bootstrapInterval, confEce, softmax, summarise } from '../../src/metrics';

function rowOf(logprobs: number[], label: number, more: Partial<Row> = {}): Row {
  const prediction = argmax(logprobs);
  const probs = softmax(logprobs);
  const base = { task: 't', doc_id: '', doc_hash: '', prompt_hash: '', truncated: 0 };
  return { ...base, logprobs, probs, label, prediction, correct: prediction === label, ...more };
}

/** Rows with 2 to 5 options, right about as often as not. */
function someRows(count: number): Row[] {
  const random = Random.seed(5).stream('rows');
  return Array.from({ length: count }, () => {
    const logprobs = Array.from({ length: 2 + random.integer(4) }, () => 2 * random.normal());
    return rowOf(logprobs, random.uniform() < 0.4 ? argmax(logprobs) : random.integer(logprobs.length));
  });
}

const summary = (rows: readonly Row[], resamples = 200, bins = 10) =>
  summariseRows(rows, { bins, resamples, random: Random.seed(1).stream('bootstrap') });

describe('summariseRows', () => {
  const rows = someRows(150);
  const { metrics, bins, binning } = summary(rows);

  it('has the values of the metrics themselves', () => {
    const right = summarise({ probs: rows.map((r) => r.probs), labels: rows.map((r) => r.label) });
    for (const name of ['accuracy', 'conf_ece', 'cw_ece', 'adaptive_ece', 'mce', 'rms_ece', 'smooth_ece'] as const) {
      expect(metrics[name]!.value, name).toBe(right[name]);
    }
    for (const name of ['brier', 'nll', 'auroc'] as const) expect(metrics[name]!.value).toBeCloseTo(right[name]!, 12);
    expect(bins).toEqual(right.bins);
    expect(binning).toMatchObject({ bins: 10, n: 150, tie_rule: 'lowest index' });
    const confidences = rows.map((r) => Math.max(...r.probs));
    expect(metrics['mean_confidence']!.value).toBeCloseTo(confidences.reduce((a, b) => a + b, 0) / 150, 12);
  });

  it('says which way is better', () => {
    const up = Object.entries(metrics).filter(([, metric]) => metric.higher_is_better);
    expect(up.map(([name]) => name).sort()).toEqual(['accuracy', 'auroc']);
  });

  it('has the standard error of a mean with n - 1', () => {
    const p = metrics['accuracy']!.value!;
    expect(metrics['accuracy']!.stderr).toBeCloseTo(Math.sqrt((p * (1 - p)) / 149), 12);
  });

  it('has intervals that contain the value, over the same resamples', () => {
    const found = Object.entries(metrics).filter(([, metric]) => metric.interval);
    expect(found.map(([name]) => name)).toEqual(
      ['accuracy', 'mean_confidence', 'conf_ece', 'cw_ece', 'brier', 'nll', 'auroc'], // prettier-ignore
    );
    for (const [name, { value, interval }] of found) {
      expect(interval![0], name).toBeLessThan(value!);
      expect(interval![1], name).toBeGreaterThan(value!);
    }
    const bootstrap = bootstrapInterval(
      rows,
      (sample) => confEce(sample.map((r) => Math.max(...r.probs)), sample.map((r) => Number(r.correct)), 10), // prettier-ignore
      { resamples: 200, random: Random.seed(1).stream('bootstrap') },
    );
    expect(metrics['conf_ece']!.stderr).toBeCloseTo(bootstrap!.standard_error!, 12);
    expect(summary(rows)).toEqual({ metrics, bins, binning });
  });

  it('keeps an ECE interval within 0 and 1, however few the items', () => {
    for (const few of [rows.slice(0, 2), rows.slice(2, 5)]) {
      for (const name of ['conf_ece', 'cw_ece']) {
        const { value, interval } = summary(few).metrics[name]!;
        const [lo, hi] = interval!;
        expect(0 <= lo && lo <= value! && value! <= hi && hi <= 1, `${name} ${lo} ${value} ${hi}`).toBe(true);
      }
    }
  });

  it('E-23: has nulls, not NaN, for one item, and where no resample was asked for', () => {
    const one = summary([rowOf([2, 0], 0)]).metrics;
    const none = summary(rows, 0).metrics;
    for (const { stderr, interval } of Object.values(one)) expect([stderr, interval]).toEqual([null, null]);
    for (const { interval } of Object.values(none)) expect(interval).toBeNull();
    expect(one['auroc']!.value).toBeNull(); // all right
    expect([one['accuracy'], one['mce']].map((metric) => Number.isFinite(metric!.value))).toEqual([true, true]);
    expect(JSON.stringify([one, none])).not.toContain('NaN');
    expect(Number.isNaN(summary(rows, 1).metrics['conf_ece']!.stderr)).toBe(false);
  });

  it('is infinite in NLL, and in nothing else, when a right answer is impossible', () => {
    const { metrics: found } = summary([rowOf([0, -Infinity], 1), rowOf([1, 0], 0), rowOf([1, 0], 0)]);
    expect(found['nll']).toMatchObject({ value: Infinity, stderr: null });
    expect(found['nll']!.interval![1]).toBe(Infinity);
    for (const [name, { value }] of Object.entries(found)) {
      if (name !== 'nll') expect(value === null || Number.isFinite(value), name).toBe(true);
    }
  });

  it('has acc_norm where rows have a prediction by length', () => {
    const normed = [rowOf([1, 0], 1, { prediction_norm: 1 }), rowOf([1, 0], 0, { prediction_norm: 1 })];
    expect(summary(normed).metrics['acc_norm']).toMatchObject({ value: 0.5, higher_is_better: true });
    expect(summary([normed[0]!, rowOf([1, 0], 1)]).metrics['acc_norm']).toBeUndefined();
  });
});

describe('summariseTopics', () => {
  const hit = rowOf([1, 0], 0);
  const miss = rowOf([1, 0], 1);

  it('has the accuracy of each topic and their plain mean', () => {
    const found = summariseTopics([hit, miss, hit, hit, hit], ['a', 'a', 'b', 'a', undefined])!;
    const a = { topic: 'a', n: 3, value: 2 / 3, stderr: 1 / 3 }; // sqrt((1/9 + 1/9 + 4/9) / 2 / 3)
    expect(found.topics).toEqual([
      { ...a, stderr: expect.closeTo(a.stderr, 12) as number },
      { topic: 'b', n: 1, value: 1, stderr: null },
      { topic: 'no topic', n: 1, value: 1, stderr: null },
    ]);
    expect(found.mean).toMatchObject({ value: expect.closeTo((2 / 3 + 1 + 1) / 3, 12) as number, stderr: null });
  });

  it('is silent where there is one topic or none', () => {
    expect(summariseTopics([hit, miss], ['a', 'a'])).toBeUndefined();
    expect(summariseTopics([hit, miss], [undefined, undefined])).toBeUndefined();
  });
});
