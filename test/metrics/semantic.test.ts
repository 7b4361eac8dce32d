import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import { Random } from '../../src/engine/random';
import {
  auroc,
  bootstrapInterval,
  checkSemanticRows,
  confEce,
  SEMANTIC_VARIANTS,
  semanticBootstrap,
  semanticConfidence,
  semanticEce,
  semanticEntropy,
  semanticMetrics,
  semanticPairs,
  semanticTable,
  type SemanticRow,
  type SemanticVariant,
} from '../../src/metrics';
import { HAS_SHARED, sharedJson } from '../shared';

interface Table {
  ece: number;
  mce: number;
  reliability: { lo: number; hi: number; count: number; mean_conf: number | null; acc: number | null }[];
}

interface SemanticCase {
  kind: 'semantic';
  id: string;
  queries: { clusters: number[]; cluster_correct: Record<string, boolean> }[];
  per_query: {
    n_samples: number;
    n_clusters: number;
    majority_cluster: number;
    tie: boolean;
    conf_majority: number;
    correct_majority: number;
    conf_first_sample: number;
    correct_first_sample: number;
    mean_sample_correct: number;
    semantic_entropy_nats: number;
    entropy_conf_logM: number;
    exp_neg_entropy: number;
  }[];
  sem_ece: Record<'10' | '15', Record<Exclude<SemanticVariant, 'per_sample'>, { ge_lt: Table }>>;
  accuracy_majority: number;
  mean_semantic_entropy: number;
}

const quick = { resamples: 0 };
const repeat = (label: string, times: number) => new Array<string>(times).fill(label);
const row = (clusters: readonly (string | number)[], right: readonly string[]): SemanticRow => ({
  clusters,
  correct: Object.fromEntries(clusters.map((label) => [label, right.includes(String(label))])),
});

describe('against the reference', () => {
  it.skipIf(!HAS_SHARED)('agrees in every case of kind "semantic" (needs ../shared)', () => {
    const all = sharedJson<{ cases: { kind: string }[] }>('oracle', 'metrics', 'public.json').cases;
    const cases = all.filter((c): c is SemanticCase => c.kind === 'semantic');
    expect(cases.length).toBeGreaterThanOrEqual(3);
    for (const c of cases) {
      const near = (a: number | null, b: number | null, what = '') => {
        if (a === null || b === null) expect(a, `${c.id} ${what}`).toBe(b);
        else expect(Math.abs(a - b), `${c.id} ${what}`).toBeLessThanOrEqual(1e-12);
      };
      const rows = c.queries.map(({ clusters, cluster_correct }) => ({ clusters, correct: cluster_correct }));
      const questions = checkSemanticRows(rows);
      c.per_query.forEach((right, i) => {
        const got = semanticConfidence(rows[i]!.clusters);
        expect([got.majority, got.tie], c.id).toEqual([right.majority_cluster, right.tie]);
        near(got.frequency_majority, right.conf_majority);
        near(got.frequency_first_sample, right.conf_first_sample);
        near(got.entropy, right.semantic_entropy_nats);
        near(got.entropy_conf_logM, right.entropy_conf_logM);
        near(got.exp_neg_entropy, right.exp_neg_entropy);
        expect(questions[i]!.counts.length).toBe(right.n_clusters);
        expect(semanticPairs([questions[i]!]).correct).toEqual([right.correct_majority]);
        expect(semanticPairs([questions[i]!], 'frequency_first_sample').correct).toEqual([right.correct_first_sample]);
        near(semanticMetrics([rows[i]!], quick).sample_accuracy, right.mean_sample_correct);
      });
      for (const bins of [10, 15] as const) {
        const got = semanticMetrics(rows, { ...quick, bins });
        near(got.accuracy, c.accuracy_majority);
        near(got.semantic_entropy, c.mean_semantic_entropy);
        near(got.sem_ece, c.sem_ece[bins].frequency_majority.ge_lt.ece);
        near(got.sem_mce, c.sem_ece[bins].frequency_majority.ge_lt.mce);
        for (const variant of SEMANTIC_VARIANTS) {
          if (variant === 'per_sample') continue;
          const right = c.sem_ece[bins][variant].ge_lt;
          near(semanticEce(rows, { bins, variant }), right.ece, variant);
          const table = semanticTable(questions, { bins, variant });
          expect(
            table.map(({ count }) => count),
            `${c.id} ${variant}`,
          ).toEqual(right.reliability.map(({ count }) => count));
          table.forEach(({ lo, mean_confidence, accuracy }, k) => {
            near(lo, right.reliability[k]!.lo);
            near(mean_confidence, right.reliability[k]!.mean_conf);
            near(accuracy, right.reliability[k]!.acc);
          });
        }
      }
    }
  });
});

describe('semanticConfidence', () => {
  it('takes the cluster that appears first of several that are the most frequent', () => {
    expect(semanticConfidence(['b', 'a', 'a', 'b', 'c'])).toMatchObject({ majority: 'b', tie: true, frequency_majority: 0.4 }); // prettier-ignore
    expect(semanticConfidence(['c', 'a', 'a'])).toMatchObject({ majority: 'a', tie: false, frequency_first_sample: 1 / 3 }); // prettier-ignore
  });

  it('is sure where all samples agree, and of a single one', () => {
    for (const clusters of [[7], repeat('x', 20)]) {
      const { frequency_majority, entropy, entropy_conf_logM, exp_neg_entropy } = semanticConfidence(clusters);
      expect([frequency_majority, entropy, entropy_conf_logM, exp_neg_entropy]).toEqual([1, 0, 1, 1]);
    }
  });

  it('has entropies that are known: ln 2 of two halves, ln k where all differ', () => {
    expect(semanticConfidence(['a', 'b', 'b', 'a']).entropy).toBeCloseTo(Math.LN2, 15);
    expect(semanticConfidence(['a', 'b', 'b', 'a']).entropy_conf_logM).toBeCloseTo(0.5, 15);
    for (let k = 2; k <= 100; k++) {
      const all = semanticConfidence(Array.from({ length: k }, (_, i) => i));
      expect(all.entropy).toBeCloseTo(Math.log(k), 12);
      expect(all.entropy_conf_logM).toBeGreaterThanOrEqual(0);
      expect(all.entropy_conf_logM).toBeLessThan(1e-14);
    }
  });

  it('S-1: 3 of "Paris" and 1 of "Its Paris" are 4 of 5, whatever the likelihoods of the strings', () => {
    expect(semanticConfidence(['paris', 'paris', 'paris', 'paris', 'london']).entropy).toBeCloseTo(0.500402, 6);
    expect(semanticEntropy([0.6 + 0.3, 0.1])).toBeCloseTo(0.325083, 6);
    expect(() => semanticEntropy([3 * 0.6 + 0.3, 0.1])).toThrow('which sum to 2.1');
  });

  it('S-2: the entropy is weighted by the masses, without a shift', () => {
    expect(semanticEntropy([0.9, 0.1])).toBeCloseTo(0.325083, 6);
    expect(semanticConfidence([...repeat('a', 9), 'b']).entropy).toBeCloseTo(0.325083, 6);
    expect(semanticEntropy([1, 0])).toBe(0);
    expect(() => semanticEntropy([0.5, NaN])).toThrow(CalmError);
    expect(() => semanticEntropy([1.5, -0.5])).toThrow(CalmError);
  });

  it('S-4: the order of samples decides nothing but ties', () => {
    const labels = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(labels, fc.integer(), (clusters, seed) => {
        const [a, b] = [clusters, Random.seed(seed).shuffle(clusters)].map(semanticConfidence);
        if (!a!.tie) expect(b!.majority).toBe(a!.majority);
        expect([b!.tie, b!.frequency_majority]).toEqual([a!.tie, a!.frequency_majority]);
        expect(b!.entropy).toBeCloseTo(a!.entropy, 12);
      }),
    );
  });
});

describe('semanticEce', () => {
  it('puts a frequency that is an edge above it, exactly', () => {
    for (let bins = 2; bins <= 40; bins++) {
      for (let k = 1; k <= 40; k++) {
        for (let count = 1; count <= k; count++) {
          const others = Array.from({ length: k - count }, (_, i) => i);
          const [question] = checkSemanticRows([row([...repeat('a', count), ...others], ['a'])]);
          const bin = semanticTable([question!], { bins, variant: 'frequency_first_sample' }).findIndex((b) => b.count);
          const right = Math.min(bins - 1, Math.floor((count * bins) / k)); // integers below 2^53: exact
          if (bin !== right) expect([bin, count, k, bins]).toEqual([right, count, k, bins]);
        }
      }
    }
  });

  it('puts exp(-H) of five equal clusters, which is 1/5, above that edge', () => {
    for (const parts of [2, 3, 4, 5, 6, 7, 10, 12]) {
      const clusters = Array.from({ length: parts * 3 }, (_, i) => i % parts);
      const table = semanticTable(checkSemanticRows([row(clusters, [])]), { bins: parts, variant: 'exp_neg_entropy' });
      expect(table.findIndex((bin) => bin.count)).toBe(1);
    }
  });

  // 0.6 right, 0.6 wrong and 1 right of five samples; bins of ten.
  const three = [
    row(['a', 'a', 'a', 'b', 'b'], ['a']),
    row(['a', 'b', 'a', 'b', 'b'], ['a']),
    row(['a', 'a', 'a', 'a', 'a'], ['a']),
  ];

  it('is what a hand computes', () => {
    expect(semanticEce(three)).toBeCloseTo((2 / 3) * Math.abs(0.5 - 0.6), 12);
    // Samples: bin 4 has two wrong and two right of 0.4, bin 6 three right and three wrong of 0.6, bin 9 five of 1.
    expect(semanticEce(three, { variant: 'per_sample' })).toBeCloseTo((4 / 15) * 0.1 + (6 / 15) * 0.1, 12);
    // First samples: 0.6 right; 0.4 right; 1 right.
    expect(semanticEce(three, { variant: 'frequency_first_sample' })).toBeCloseTo((0.4 + 0.6) / 3, 12);
    expect(semanticEce(three, { bins: 1 })).toBeCloseTo(Math.abs(2 / 3 - 2.2 / 3), 12);
  });

  it('gathers everything in one object', () => {
    const got = semanticMetrics([...three, row(['a', 'b'], ['b'])], quick);
    expect(got).toMatchObject({ n: 4, samples: 17, k_min: 2, k_max: 5, accuracy: 0.5, bootstrap: null });
    expect(got.sample_accuracy).toBeCloseTo((0.6 + 0.4 + 1 + 0.5) / 4, 12);
    expect(got.mean_confidence).toBeCloseTo((0.6 + 0.6 + 1 + 0.5) / 4, 12);
    expect(got.brier).toBeCloseTo((0.16 + 0.36 + 0 + 0.25) / 4, 12);
    expect(got.auroc).toBe(auroc([0.6, 0.6, 1, 0.5], [1, 0, 1, 0]));
    expect(got.sem_ece).toBeCloseTo(0.5 * 0.1 + 0.25 * 0.5, 12);
    expect(got.sem_mce).toBeCloseTo(0.5, 12);
    expect(got.bins.confidence.map(({ count }) => count)).toEqual([0, 0, 0, 0, 0, 1, 2, 0, 0, 1]);
    expect(got.bins.per_sample.map(({ count }) => count)).toEqual([0, 0, 0, 0, 4, 2, 6, 0, 0, 5]);
    expect(got.bins.per_sample[4]).toEqual({ lo: 0.4, hi: 0.5, count: 4, mean_confidence: 0.4, accuracy: 0.5 });
    expect(got.convention).toMatchObject({ bins: 10, n: 4 });
    expect(semanticMetrics([row(['a'], [])], quick).auroc).toBeNull();
  });

  const questions = fc.array(
    fc.record({
      clusters: fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 20 }),
      right: fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 30 },
  );
  const rowsOf = (drawn: { clusters: number[]; right: number[] }[], name = (code: number): string | number => code) =>
    drawn.map(({ clusters, right }) => row(clusters.map(name), right.map((code) => String(name(code))))); // prettier-ignore
  const numbers = (rows: SemanticRow[]) => {
    const { bins: _bins, convention: _convention, bootstrap: _bootstrap, ...values } = semanticMetrics(rows, quick);
    return values;
  };

  it('is in [0, 1], of confidences from 1/k to 1 that lose no question and no sample', () => {
    fc.assert(
      fc.property(questions, fc.integer({ min: 1, max: 20 }), (drawn, bins) => {
        const rows = rowsOf(drawn);
        const { confidence } = semanticPairs(checkSemanticRows(rows));
        confidence.forEach((c, i) => expect(c >= 1 / rows[i]!.clusters.length && c <= 1).toBe(true));
        for (const variant of SEMANTIC_VARIANTS) {
          const ece = semanticEce(rows, { variant, bins });
          expect(ece >= 0 && ece <= 1).toBe(true);
        }
        const got = semanticMetrics(rows, { ...quick, bins });
        const total = (table: { count: number }[]) => table.reduce((sum, { count }) => sum + count, 0);
        expect([total(got.bins.confidence), total(got.bins.per_sample)]).toEqual([got.n, got.samples]);
        expect(got.sem_ece).toBeCloseTo(confEce(...pairsOf(rows), bins), 12);
      }),
    );
  });
  const pairsOf = (rows: SemanticRow[]) => {
    const { confidence, correct } = semanticPairs(checkSemanticRows(rows));
    return [confidence, correct] as const;
  };

  it('does not depend on the order of questions', () => {
    fc.assert(
      fc.property(questions, fc.integer(), (drawn, seed) => {
        const rows = rowsOf(drawn);
        const [a, b] = [numbers(rows), numbers(Random.seed(seed).shuffle(rows))];
        for (const key of Object.keys(a) as (keyof typeof a)[]) {
          if (a[key] === null) expect(b[key]).toBeNull();
          else expect(b[key]).toBeCloseTo(a[key], 12);
        }
      }),
    );
  });

  it('does not depend on the names of clusters, nor does its bootstrap', () => {
    const names = ['__proto__', 'constructor', ' ', '', '0', 'London', 'a\nb'];
    fc.assert(
      fc.property(questions, (drawn) => {
        const [a, b] = [rowsOf(drawn), rowsOf(drawn, (code) => names[code]!)];
        expect(semanticMetrics(b, { resamples: 3 })).toEqual(semanticMetrics(a, { resamples: 3 }));
      }),
    );
  });
});

describe('semanticBootstrap', () => {
  /** A model that samples meaning j with probability p_j, and is right less often than it is sure. */
  function overconfident(random: Random, n: number, k: number): { rows: SemanticRow[]; truth: number } {
    const rows: SemanticRow[] = [];
    const [confidence, correct]: [number[], number[]] = [[], []];
    const pick = (p: readonly number[]) => {
      let u = random.uniform() * p.reduce((a, b) => a + b, 0);
      const found = p.findIndex((mass) => (u -= mass) < 0);
      return found < 0 ? p.length - 1 : found;
    };
    for (let i = 0; i < n; i++) {
      const sharpness = [0.5, 1.5, 3][i % 3]!;
      const weights = Array.from({ length: 8 }, () => Math.exp(sharpness * random.normal()));
      const p = weights.map((weight) => weight / weights.reduce((a, b) => a + b, 0));
      const right = random.uniform() < 0.3 ? -1 : pick(p.map(Math.sqrt));
      const clusters = Array.from({ length: k }, () => pick(p));
      rows.push(row(clusters, [String(right)]));
      const mode = p.indexOf(Math.max(...p));
      confidence.push(p[mode]!);
      correct.push(mode === right ? 1 : 0);
    }
    return { rows, truth: confEce(confidence, correct) };
  }

  it('estimates the bias of few samples where the probabilities are known', () => {
    const random = Random.seed(8);
    const sets = Array.from({ length: 40 }, (_, i) => {
      const { rows, truth } = overconfident(random.stream(`set ${i}`), 300, 20);
      return { truth, ...semanticBootstrap(checkSemanticRows(rows), { resamples: 60 }) };
    });
    const mean = (of: (set: (typeof sets)[number]) => number) => sets.reduce((sum, s) => sum + of(s), 0) / sets.length;
    const bias = mean((s) => s.value - s.truth);
    expect(bias).toBeGreaterThan(0.015);
    expect(Math.abs(mean((s) => s.bias!) - bias)).toBeLessThan(0.3 * bias);
    expect(Math.abs(mean((s) => s.corrected! - s.truth))).toBeLessThan(0.3 * bias);
    const deviation = (of: (set: (typeof sets)[number]) => number) => Math.sqrt(mean((s) => (of(s) - mean(of)) ** 2));
    for (const [spread, error] of [
      [deviation((s) => s.value), mean((s) => s.stderr!)],
      [deviation((s) => s.corrected!), mean((s) => s.corrected_stderr!)],
    ] as const) {
      expect(error / spread).toBeGreaterThan(0.65);
      expect(error / spread).toBeLessThan(1.5);
    }
  });

  it.each<[string, string[], number]>([
    // Of two samples a redraw agrees half the time: confidence 1, else 0.5.
    ['both wrong: a gap of 0.5 becomes 1 half the time', [], 0.25],
    ['both right: a gap of 0.5 becomes 0 half the time', ['a', 'b'], -0.25],
    ['one right: gaps 0, 0.5, 0.5 and 1', ['a'], 0],
  ])('is what a hand computes, %s', (_what, right, bias) => {
    const got = semanticBootstrap(checkSemanticRows([row(['a', 'b'], right)]), { resamples: 20_000 });
    expect(got.value).toBe(0.5);
    expect(Math.abs(got.bias! - bias)).toBeLessThan(0.01);
    expect(got.corrected).toBe(got.value - got.bias!);
    // One question says nothing of others.
    expect([got.stderr, got.interval, got.corrected_stderr, got.corrected_interval]).toEqual([null, null, null, null]);
  });

  const rows = overconfident(Random.seed(1), 50, 6).rows;
  const questions = checkSemanticRows(rows);

  it('has no bias where samples agree', () => {
    const sure = checkSemanticRows([row(repeat('a', 20), ['a']), row(repeat('b', 20), []), row(['c'], ['c'])]);
    const got = semanticBootstrap(sure);
    expect(got.value).toBeCloseTo(1 / 3, 15);
    expect([got.bias, got.corrected]).toEqual([0, got.value]);
    expect(got.corrected_stderr).toBeCloseTo(got.stderr!, 12);
  });

  it('has no bias to say of single samples, whose frequency is always 1', () => {
    const single = checkSemanticRows([row(['a'], ['a']), row(['b'], [])]);
    const got = semanticBootstrap(single, { resamples: 100 });
    expect([got.value, got.bias, got.corrected, got.corrected_stderr, got.corrected_interval]).toEqual([0.5, null, null, null, null]); // prettier-ignore
    expect(got.stderr).toBeGreaterThan(0);
  });

  it('sets its intervals around the values, with the standard error over questions', () => {
    const { confidence, correct } = semanticPairs(questions);
    const random = Random.seed(3);
    const got = semanticBootstrap(questions, { random, resamples: 200 });
    const right = bootstrapInterval(
      questions.map((_, i) => i),
      (chosen) => confEce(chosen.map((i) => confidence[i]!), chosen.map((i) => correct[i]!)), // prettier-ignore
      { random: random.stream('questions'), resamples: 200 },
    )!;
    expect(got.value).toBe(semanticEce(rows));
    expect(got.stderr).toBeCloseTo(right.standard_error!, 12);
    const [low, high] = got.interval!;
    expect((high - low) / 2).toBeCloseTo(1.959964 * got.stderr!, 12);
    expect((high + low) / 2).toBeCloseTo(got.value, 12);
    expect(got.corrected_stderr).toBeGreaterThan(got.stderr!);
    expect((got.corrected_interval![0] + got.corrected_interval![1]) / 2).toBeCloseTo(got.corrected!, 12);
  });

  it('repeats from the same seed and differs with another', () => {
    const at = (seed: number) => semanticMetrics(rows, { resamples: 50, seed }).bootstrap;
    expect(at(1)).toEqual(at(1));
    expect(at(1)).not.toEqual(at(2));
    expect(semanticMetrics(rows, { resamples: 50 }).bootstrap).toEqual(at(0));
    expect(semanticBootstrap(questions, { resamples: 50 })).toEqual(at(0));
  });

  it('keeps the corrected value in [0, 1]', () => {
    const wide = checkSemanticRows([row([0, 1, 2, 3, 4], []), row([0, 1, 2, 3, 4], [])]);
    const got = semanticBootstrap(wide, { resamples: 200 });
    expect(got.value - got.bias!).toBeLessThan(0);
    expect(got.corrected).toBe(0);
    expect(got.corrected_interval![0]).toBeGreaterThanOrEqual(0);
  });

  it('refuses a number of resamples that is none', () => {
    expect(() => semanticBootstrap(questions, { resamples: 0 })).toThrow(UsageError);
    expect(() => semanticMetrics(rows, { resamples: 1.5 })).toThrow(UsageError);
  });

  it('takes 1,000 questions of 20 samples with 1,000 resamples in 10 seconds', () => {
    const many = overconfident(Random.seed(2), 1000, 20).rows;
    const start = performance.now();
    expect(semanticMetrics(many).bootstrap!.resamples).toBe(1000);
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});

describe('checkSemanticRows', () => {
  const good = { clusters: ['a', 'b'], correct: { a: true, b: false } };

  it('knows clusters by their names, numbers included', () => {
    const correct: unknown = JSON.parse('{"1": true, "2": false, "__proto__": true, "other": false}');
    const [question] = checkSemanticRows([{ clusters: [1, '1', 2, '__proto__'], correct }]);
    expect([question!.codes, question!.counts, question!.right]).toEqual([[0, 0, 1, 2], [2, 1, 1], [1, 0, 1]]); // prettier-ignore
  });

  it.each<[string, unknown, string]>([
    ['null', null, 'is not an object'],
    ['a list', [], 'is not an object'],
    ['no clusters', { correct: {} }, 'has no list "clusters"'],
    ['a cluster that is no list', { ...good, clusters: 'ab' }, 'has no list "clusters"'],
    ['no samples', { ...good, clusters: [] }, '"clusters" is empty'],
    ['a missing label', { ...good, clusters: ['a', null] }, 'clusters[1] is null'],
    ['a label that is NaN', { ...good, clusters: [NaN] }, 'clusters[0] is NaN'],
    ['a label that JSON rounded', { ...good, clusters: [2 ** 60] }, 'too large to be exact'],
    ['nothing on what is right', { clusters: ['a'] }, 'has no object "correct"'],
    ['a list of what is right', { clusters: [0], correct: [true] }, 'has no object "correct"'],
    ['a cluster without an entry', { ...good, clusters: ['a', 'x'] }, '"correct" has no entry for cluster "x"'],
    [
      'an entry that only objects inherit',
      { ...good, clusters: ['constructor'] },
      'no entry for cluster "constructor"',
    ],
    ['several', { ...good, clusters: ['w', 'x', 3, 'y'] }, 'no entry for cluster "w", "x", 3 and 1 more'],
    ['a 1 for true', { ...good, correct: { a: 1, b: false } }, 'correct["a"] is 1'],
    ['a word for true', { ...good, correct: { a: true, b: 'true' } }, 'correct["b"] is "true"'],
  ])('refuses %s, by row', (_what, bad, message) => {
    expect(() => checkSemanticRows([good, bad])).toThrow(CalmError);
    expect(() => checkSemanticRows([good, bad])).toThrow(`row 2: `);
    expect(() => checkSemanticRows([good, bad], (i) => `line ${i}`)).toThrow(/^line 1: /);
    expect(() => checkSemanticRows([good, bad])).toThrow(message);
  });

  it('says which entries there are', () => {
    try {
      checkSemanticRows([{ clusters: [0, 1], correct: { '0.0': true, '1.0': false } }]);
      expect.unreachable();
    } catch (error) {
      expect((error as CalmError).line).toContain(
        '0, 1; say of each cluster whether it is right (there is "0.0", "1.0")',
      );
    }
  });

  it('refuses no rows, no samples and no bins', () => {
    expect(() => semanticMetrics([])).toThrow('there are no predictions');
    expect(() => semanticConfidence([])).toThrow('is empty');
    expect(() => semanticMetrics([good], { bins: 0 })).toThrow(UsageError);
  });
});
