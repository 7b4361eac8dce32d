import { describe, expect, it } from 'vitest';
import { calm, calmJson, failure, workplace } from './calm';

const { at, write } = workplace();
const PROBS = [
  { probs: [0.95, 0.05], label: 0 },
  { probs: [1, 0], label: 1 },
];

describe('calm metrics', () => {
  it('has the keys of the contract', async () => {
    const json = await calmJson<Record<string, unknown>>('metrics', write('m1.jsonl', PROBS));
    expect(Object.keys(json).sort()).toEqual(
      ['accuracy', 'adaptive_ece', 'auroc', 'bins', 'brier', 'conf_ece', 'convention', 'cw_ece', 'mce', 'n', 'nll', 'rms_ece', 'smooth_ece'], // prettier-ignore
    );
    expect(json).toMatchObject({ n: 2, accuracy: 0.5, nll: 'Infinity', brier: 1.0025, auroc: 0, convention: { bins: 10 } }); // prettier-ignore
    expect(json['conf_ece']).toBeCloseTo(0.475, 12); // M-1
    const { confidence, classwise_total } = json['bins'] as Record<string, Record<string, unknown>[]>;
    expect([confidence!.length, classwise_total!.length]).toEqual([10, 10]);
    expect(confidence![0]).toEqual({ lo: 0, hi: 0.1, count: 0, mean_confidence: null, accuracy: null });
    expect(confidence![9]).toMatchObject({ count: 2, mean_confidence: 0.975, accuracy: 0.5 });
  });

  it('M-4: logits are logits, also where they lie in [0, 1]', async () => {
    const rows = write('logits.jsonl', [
      { logits: [0, 1], label: 1 },
      { logits: [1, 0], label: 1 },
    ]);
    const json = await calmJson<{ bins: { confidence: { mean_confidence: number }[] } }>('metrics', rows);
    expect(json.bins.confidence[7]!.mean_confidence).toBeCloseTo(0.731059, 6);
  });

  it('prints lines, and as many bins as asked for', async () => {
    const { code, stdout, stderr } = await calm('metrics', write('m1.jsonl', PROBS), '--bins', '4');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('conf_ece      0.475000\n');
    expect(stdout).toContain('nll           Infinity\n');
    expect(stdout).toMatch(/Top-choice confidence, 4 bins/);
    expect(stdout.trimEnd().split('\n').slice(-4)[0]).toMatch(/^0\.000 +0\.250 +0 +— +—$/);
  });

  it.each<[string, unknown[] | string, string]>([
    ['an empty file', '', 'is empty'],
    ['text', 'hello\n', 'line 1 is not JSON'],
    ['a bare NaN', '{"probs":[NaN,1],"label":0}\n', 'line 1 is not JSON'],
    ['a NaN in words', [PROBS[0], { probs: ['NaN', 1], label: 0 }], 'line 2'],
    ['an infinite logit', [PROBS[0], { logits: ['Infinity', 1], label: 0 }], 'line 2'],
    ['a label beyond the classes', [{ probs: [0.5, 0.5], label: 2 }], 'line 1'],
    ['half a label', [{ probs: [0.5, 0.5], label: 0.5 }], 'line 1'],
    ['probabilities that do not sum to 1', [{ probs: [0.5, 0.6], label: 0 }], 'line 1'],
    ['neither', [{ label: 0 }], 'line 1'],
    ['null', [null], 'line 1'],
  ])('refuses %s', async (_what, content, message) => {
    expect(await failure(1, 'metrics', write('bad.jsonl', content))).toContain(message);
    expect(await failure(1, 'fit', 'temperature', at('bad.jsonl'))).toContain(message);
  });
});

describe('calm metrics --semantic', () => {
  const SAMPLED = [
    { id: 'q1', clusters: ['paris', 'paris', 'paris', 'paris', 'london'], correct: { paris: true, london: false } },
    { id: 'q2', clusters: [0, 1, 1, 0, 2], correct: { 0: false, 1: true, 2: false } },
  ];

  it('prints one object, the same for the same seed', async () => {
    const file = write('s.jsonl', SAMPLED);
    type Found = Record<string, unknown> & { bootstrap: { bias: number; interval: number[] } };
    const found = await calmJson<Found>('metrics', '--semantic', file, '--resamples', '50');
    expect(Object.keys(found)).toEqual([
      ...['n', 'samples', 'k_min', 'k_max', 'accuracy', 'sample_accuracy', 'mean_confidence', 'semantic_entropy'],
      ...['sem_ece', 'sem_ece_per_sample', 'sem_ece_frequency_first_sample', 'sem_ece_entropy_conf_logM'],
      ...['sem_ece_exp_neg_entropy', 'sem_mce', 'brier', 'auroc', 'bootstrap', 'bins', 'convention'],
    ]);
    expect(found).toMatchObject({ n: 2, samples: 10, k_min: 5, k_max: 5, accuracy: 0.5, auroc: 1, convention: { bins: 10 } }); // prettier-ignore
    expect(found['sem_ece']).toBeCloseTo((0.2 + 0.4) / 2, 12); // 0.8 right, 0.4 wrong
    expect(found['brier']).toBeCloseTo((0.04 + 0.16) / 2, 12);
    expect(Object.keys(found.bootstrap)).toEqual([
      ...['value', 'stderr', 'interval', 'resamples', 'bias', 'corrected', 'corrected_stderr', 'corrected_interval'],
    ]);
    const { confidence, per_sample } = found['bins'] as Record<string, { count: number }[]>;
    expect(confidence!.map(({ count }) => count)).toEqual([0, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
    expect(per_sample!.map(({ count }) => count)).toEqual([0, 0, 2, 0, 4, 0, 0, 0, 4, 0]);
    // The file may stand before the option, and 0 is the seed where none is given.
    expect(await calmJson('metrics', file, '--semantic', '--resamples', '50', '--seed', '0')).toEqual(found);
    const other = await calmJson<Found>('metrics', file, '--semantic', '--resamples', '50', '--seed', '1');
    expect(other.bootstrap.bias).not.toBe(found.bootstrap.bias);
    const without = await calmJson<Found>('metrics', file, '--semantic', '--resamples', '0');
    expect(without).toEqual({ ...found, bootstrap: null });
  });

  it('prints lines, both diagrams, and as many bins as asked for', async () => {
    const { code, stdout, stderr } = await calm('metrics', '--semantic', write('s.jsonl', SAMPLED), '--bins', '4');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^sem_ece +0\.300000$/m);
    expect(stdout).toMatch(/^Sem-ECE and its bias from 5 samples a question, 1000 resamples$/m);
    expect(stdout).toMatch(/^as measured {5}0\.300000 {2}95 % \[0\.\d{6}, 0\.\d{6}\]$/m);
    expect(stdout).toMatch(/^bias +-?0\.\d{6}\nbias corrected +0\.\d{6} +95 % \[/m);
    expect(stdout).toMatch(/^Confidence of questions, 4 bins \(\[lo, hi\), last bin closed/m);
    expect(stdout).toMatch(/^Confidence of samples, 4 bins/m);
    expect(stdout.match(/^0\.250 +0\.500 +\d/gm)).toEqual(['0.250  0.500      1', '0.250  0.500      4']);
    const one = await calm('metrics', '--semantic', write('one.jsonl', SAMPLED.slice(0, 1)), '--resamples', '10');
    expect(one.stdout).toMatch(/^auroc +—$/m);
    expect(one.stdout).toMatch(/^as measured +0\.200000$/m);
    const single = write('single.jsonl', [{ clusters: ['a'], correct: { a: true } }]);
    const said = await calm('metrics', '--semantic', single);
    expect(said.stdout).toMatch(/^bias +— \(one sample a question does not show it\)\n\n/m);
  });

  it.each<[string, unknown[] | string, string]>([
    ['an empty file', '', 'is empty'],
    ['text', 'hello\n', 'line 1 is not JSON'],
    ['no clusters', [SAMPLED[0], { correct: { a: true } }], 'line 2: has no list "clusters"; expected {"clusters": ["a", "a", "b"], "correct"'], // prettier-ignore
    ['empty clusters', [{ clusters: [], correct: {} }], 'line 1: "clusters" is empty; give at least one sample'],
    ['nothing on what is right', [{ clusters: ['a'] }], 'line 1: has no object "correct"'],
    ['a cluster without an entry', [SAMPLED[0], { clusters: ['a', 'x'], correct: { a: true } }], 'line 2: "correct" has no entry for cluster "x"; say of each cluster whether it is right (there is "a")'], // prettier-ignore
    ['what is not true or false', [{ clusters: ['a'], correct: { a: 'yes' } }], 'line 1: correct["a"] is "yes"; expected true or false'], // prettier-ignore
    ['a label that is a list', [{ clusters: [['a']], correct: { a: true } }], 'line 1: clusters[0] is ["a"]; expected a string'], // prettier-ignore
    ['predictions', PROBS, 'line 1: has no list "clusters"'],
    ['null', [null], 'line 1: is not an object'],
  ])('refuses %s', async (_what, content, message) => {
    expect(await failure(1, 'metrics', '--semantic', write('bad.jsonl', content))).toContain(message);
  });

  it('refuses options that have nothing to do, and none of a file', async () => {
    const file = write('p.jsonl', PROBS);
    expect(await failure(2, 'metrics', file, '--resamples', '10')).toBe('--resamples is for --semantic; leave out --resamples'); // prettier-ignore
    expect(await failure(2, 'metrics', file, '--seed', '1')).toContain('--seed is for --semantic');
    expect(await failure(2, 'metrics', '--semantic')).toContain("missing required argument 'predictions'");
    expect(await failure(2, 'metrics', '--semantic', file, '--resamples', '-1')).toContain('Expected an integer');
    expect(await failure(1, 'metrics', '--semantic', at('absent.jsonl'))).toContain('absent.jsonl: does not exist');
    // Rows of the other kind say what is missing.
    expect(await failure(1, 'metrics', write('s.jsonl', SAMPLED))).toContain('has neither "probs" nor "logits"');
  });
});
