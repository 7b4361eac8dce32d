import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { openCache, semanticCalibration, tokenF1, withMeaning, type GenerationTask } from '../../src/evaluate';
import { sampleUntil } from '../../src/evaluate/generation';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import { writeTinyFolder } from './tiny-folder';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-open-'));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));
let model: LanguageModel;
beforeAll(async () => {
  setQuiet(true);
  model = await loadModel(writeTinyFolder(path.join(folder, 'tiny')));
});
afterAll(() => model.dispose());

const docs = ['abc', 'bcd', 'cde', 'def', 'efg'].map((question, i) => ({
  id: String(i),
  question,
  answers: ['nothing'],
}));
const task: GenerationTask = { name: 'open', version: 1, source: 'here', split: 'test', docs, skipped: [], prompt: ({ question }) => question, until: ['\n'], maxNewTokens: 3 }; // prettier-ignore
const options = { samples: 6, resamples: 50, seed: 4 };

describe('semanticCalibration', () => {
  it('keeps every sample, its cluster and whether it is right, and measures them', async () => {
    const result = await semanticCalibration(model, task, options);
    expect(result).toMatchObject({ scoring: 'semantic', n: 5, binning: { equivalence: 'normalised', linkage: 'complete', correctness: 'contains' } }); // prettier-ignore
    for (const row of result.rows) {
      expect(row.samples).toHaveLength(6);
      const sizes = new Map<number, number>();
      for (const { cluster } of row.samples) sizes.set(cluster, (sizes.get(cluster) ?? 0) + 1);
      expect(row.confidence).toBe(Math.max(...sizes.values()) / 6);
      expect(sizes.get(row.majority)).toBe(Math.max(...sizes.values()));
      for (const { text, answer, logprob } of row.samples) {
        expect(text).not.toContain('\n');
        expect(text).toContain(answer);
        expect(logprob).toBeLessThan(0);
      }
    }
    const { accuracy, sem_ece, mean_confidence, sem_ece_bias } = result.metrics;
    expect(accuracy!.value).toBe(0);
    // None is right, so that the gap is the confidence.
    expect(sem_ece!.value).toBeCloseTo(mean_confidence!.value!, 12);
    expect(sem_ece_bias!.value).toBeGreaterThan(0);
    expect(result.bins.confidence.reduce((sum, { count }) => sum + count, 0)).toBe(5);
  });

  it('finds what is right by the aliases', async () => {
    const first = await semanticCalibration(model, task, options);
    const known = docs.map((doc, i) => ({ ...doc, answers: [first.rows[i]!.samples.find((s) => s.cluster === first.rows[i]!.majority)!.answer] })); // prettier-ignore
    const usable = known.filter(({ answers }) => /[a-z0-9]/i.test(answers[0]!));
    expect(usable.length).toBeGreaterThan(0);
    const { metrics, rows } = await semanticCalibration(
      model,
      { ...task, docs: usable },
      { ...options, rule: 'exact' },
    );
    expect(metrics['accuracy']!.value).toBe(1);
    expect(metrics['sample_accuracy']!.value).toBeCloseTo(rows.reduce((sum, { confidence }) => sum + confidence, 0) / rows.length, 12); // prettier-ignore
  });

  it('samples the same whatever else is asked, and after an interruption', async () => {
    const texts = (result: Awaited<ReturnType<typeof semanticCalibration>>) =>
      result.rows.map(({ doc_id, samples }) => [doc_id, samples.map(({ text }) => text)]);
    const all = texts(await semanticCalibration(model, task, options));
    const some = texts(await semanticCalibration(model, { ...task, docs: docs.slice(3) }, options));
    expect(some).toEqual(all.slice(3));
    const cache = openCache(model, path.join(folder, 'cache'));
    await semanticCalibration(model, { ...task, docs: docs.slice(0, 2) }, { ...options, cache }); // then it was cut off
    cache.close();
    const again = openCache(model, path.join(folder, 'cache'));
    expect(again.size).toBe(2);
    expect(texts(await semanticCalibration(model, task, { ...options, cache: again }))).toEqual(all);
    expect(again.size).toBe(5);
    const other = texts(await semanticCalibration(model, task, { ...options, seed: 5, cache: again }));
    expect(other).not.toEqual(all);
    again.close();
  });

  it('is measured by another rule without sampling again', async () => {
    const result = await semanticCalibration(model, task, options);
    expect((await withMeaning(result, { resamples: 50 })).metrics).toEqual(result.metrics);
    const loose = await withMeaning(result, {
      equivalence: tokenF1({ threshold: 0.01 }),
      linkage: 'components',
      resamples: 0,
    });
    expect(loose.binning).toMatchObject({ equivalence: 'token-f1@0.01', linkage: 'components' });
    expect(loose.metrics['sem_ece_bias']).toBeUndefined();
    loose.rows.forEach(({ confidence, samples }, i) => {
      expect(confidence).toBeGreaterThanOrEqual(result.rows[i]!.confidence);
      expect(samples.map(({ text }) => text)).toEqual(result.rows[i]!.samples.map(({ text }) => text));
    });
  });

  it('refuses what cannot be measured', async () => {
    await expect(semanticCalibration(model, { ...task, docs: [] })).rejects.toThrow('has no usable questions');
    await expect(semanticCalibration(model, task, { samples: 1 })).rejects.toThrow('1 samples do not show');
    await expect(semanticCalibration(model, task, { topP: 0 })).rejects.toThrow('topP is 0');
  });
});

describe('sampleUntil', () => {
  it('ends each sample at a text, and is found again by what decides it', () => {
    const [whole] = sampleUntil(model, [{ context: 'abc', until: [], maxNewTokens: 8 }], {
      samples: 5,
      temperature: 1,
    });
    const end = [...whole!.texts[0]!][2]!;
    const [cut] = sampleUntil(model, [{ context: 'abc', until: [end], maxNewTokens: 8 }], {
      samples: 5,
      temperature: 1,
    });
    expect(cut!.texts).toEqual(whole!.texts.map((text) => text.split(end)[0]));
    cut!.ids.forEach((ids, s) => expect(ids).toHaveLength(cut!.logprobs[s]!.length - (ids.length < 8 && !model.tokenizer.decode(ids).includes(end) ? 1 : 0))); // prettier-ignore
  });
});
