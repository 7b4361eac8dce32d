import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { importLmEval } from '../../src/evaluate';
import recorded from '../fixtures/harness/lm-eval.json';
import { temporaryFolder } from '../model/make-files';
import { writeJsonl } from './tiny-folder';

// Files that lm-evaluation-harness 0.4.13 itself wrote, with --log_samples.
const FOLDER = path.join(__dirname, '../fixtures/lm-eval');
const RESULTS = fs.readdirSync(FOLDER).find((name) => name.startsWith('results_'))!;
const folder = temporaryFolder();
const where = (task: string, date = '2026-01-02T03-04-05.678') => path.join(folder, `samples_${task}_${date}.jsonl`);
const sample = (texts: string[], lps: number[], target: string, acc: number, more: object = {}) => ({
  doc_id: 7,
  target,
  arguments: Object.fromEntries(texts.map((arg_1, k) => [`gen_args_${k}`, { arg_0: 'Q:', arg_1 }])),
  filtered_resps: lps.map((lp) => [String(lp), 'False']),
  filter: 'none',
  acc,
  ...more,
});

describe('importLmEval', () => {
  it('has the accuracies that lm-evaluation-harness reports, and calibration beside them', async () => {
    const all = await importLmEval(path.join(FOLDER, RESULTS), { resamples: 0 });
    expect(all.map(({ task }) => task)).toEqual(['arc_easy', 'mmlu_anatomy', 'winogrande']);
    const { results } = JSON.parse(fs.readFileSync(path.join(FOLDER, RESULTS), 'utf8')) as {
      results: Record<string, Record<string, number>>;
    };
    for (const { task, metrics, n } of all) {
      expect(metrics['accuracy']!.value).toBe(results[task]!['acc,none']);
      if ('acc_norm,none' in results[task]!) expect(metrics['acc_norm']!.value).toBe(results[task]['acc_norm,none']);
      expect(n).toBe(results[task]!['sample_len']);
      expect(metrics['conf_ece']!.value).toBeGreaterThanOrEqual(0);
    }
    const [arc, , winogrande] = all;
    expect(arc).toMatchObject({ model: 'SmolLM2-135M-Instruct', scoring: 'continuation', shots: 0, skipped: 0 });
    expect(arc!.code_version).toBe('lm-evaluation-harness 0.4.13');
    expect(arc!.rows.map(({ label }) => label)).toEqual([1, 1, 2, 0]);
    expect(winogrande!.rows.map(({ label }) => label)).toEqual([0, 1, 0]); // not written there: see `labelOf`
    const there = recorded.tasks.find(({ task }) => task === 'arc_easy')!.docs;
    expect(arc!.rows[0]!.logprobs).toEqual(there[0]!.map(({ logprob }) => logprob));
  });

  it('takes one task alone', async () => {
    const name = RESULTS.replace('results_', 'samples_arc_easy_').replace(/json$/, 'jsonl');
    expect(await importLmEval(path.join(FOLDER, name), { resamples: 0 })).toHaveLength(1);
  });

  it('tells an index from a text by the verdict, and leaves out what it cannot tell', async () => {
    const file = where('mine');
    const [low, high] = [-3, -1];
    writeJsonl(file, [
      sample([' 2', ' 0', ' 1'], [low, low, high], '1', 0), // the index 1, for the text 1 was chosen and is wrong
      sample([' A', ' B', ' C'], [high, low, low], 'C', 0), // a text
      sample([' 1', ' 2', ' 0'], [high, low, low], '2', 0), // index 2 or text 2
      sample([' x', ' y', ' z'], [high, low, low], 'w', 0), // none of them
      sample([' x', ' y'], [high, low], '1', 0, { filter: 'other' }), // an item again
      { doc_id: 8, target: 'text', resps: [['generated']] },
    ]);
    const [result] = await importLmEval(file, { resamples: 0 });
    expect(result!.rows.map(({ label }) => label)).toEqual([1, 2]);
    expect(result).toMatchObject({ skipped: 3, n: 2, model: 'unknown model' });
  });

  it.each([
    ['results.json', undefined, 'is not named as lm-evaluation-harness names its files'],
    ['results_2026-05-05T00-00-00.1.json', {}, 'run lm-evaluation-harness with --log_samples'],
    ['samples_gen_2026-05-06T00-00-00.1.jsonl', { doc_id: 1, resps: [['text']] }, 'has no answers to multiple-choice'],
  ])('refuses %s', async (name, content, message) => {
    if (content) fs.writeFileSync(path.join(folder, name), `${JSON.stringify(content)}\n`);
    const error: unknown = await importLmEval(path.join(folder, name)).catch((e: unknown) => e);
    expect((error as { line: string }).line).toContain(message);
  });
});
