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
