import * as fs from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Comparison } from '../../src/evaluate/compare';
import { readJsonl, writeJsonl } from '../evaluate/tiny-folder';
import { calm, calmJson, failure, workplace } from './calm';

const { model, at, write } = workplace();
const questions = Array.from({ length: 12 }, (_, i) => ({
  id: `q${i}`,
  question: `What is ${i}?`,
  choices: ['this', 'that', 'more'],
  answer: i % 3,
}));

beforeAll(async () => {
  write('data/mine.jsonl', questions);
  const run = (out: string, ...more: string[]) =>
    calmJson('eval', '--model', model, '--tasks', 'mine', '--data', at('data'), '--out', at(out), '--resamples', '0', '--no-cache', ...more); // prettier-ignore
  await run('first');
  await run('short', '--limit', '5');
  await run('cloze', '--scoring', 'cloze');
  await run('first-cloze', '--scoring', 'cloze', '--normalisation', 'byte');
});

describe('calm compare', () => {
  it('compares two runs item by item', async () => {
    const { comparisons } = await calmJson<{ comparisons: (Comparison & { task: string })[] }>(
      'compare',
      at('cloze'),
      at('first-cloze'),
      '--resamples',
      '50', // prettier-ignore
    );
    expect(comparisons).toHaveLength(1);
    const [one] = comparisons as [Comparison & { task: string }];
    expect(one).toMatchObject({ task: 'mine by cloze', n: 12, only_a: 0, only_b: 0 });
    const rows = (run: string) => readJsonl<{ correct: boolean }>(at(`${run}/rows.jsonl`));
    const right = (run: string) => rows(run).filter(({ correct }) => correct).length / 12;
    expect(one.accuracy).toMatchObject({ a: right('cloze'), b: right('first-cloze') });
    const { right_only_in_a, right_only_in_b } = one.mcnemar;
    expect(one.flips).toHaveLength(right_only_in_a + right_only_in_b);
  });

  it('prints a table, what only one run has, and the first flips', async () => {
    const { code, stdout } = await calm('compare', at('first'), at('short'));
    expect(code).toBe(0);
    expect(stdout).toContain('mine by letter, 5 items in both; 7 items only in the first, 0 only in the second');
    expect(stdout).toMatch(/\| accuracy, % \| [\d.]+ \| [\d.]+ \| \+0\.0 \[\+0\.0, \+0\.0\] \|/);
    expect(stdout).toContain('McNemar p = 1.00');
    const flips = await calm('compare', at('cloze'), at('first-cloze'), '--flips', '1');
    expect(flips.stdout.split('\n').filter((line) => /^ {2}(gained|lost): q\d+/.test(line)).length).toBeLessThan(2);
  });

  it('refuses what cannot be compared', async () => {
    expect(await failure(2, 'compare', at('first'), at('cloze'))).toContain(
      'have no task with the same scoring in common; there are mine by letter; mine by cloze',
    );
    expect(await failure(1, 'compare', at('first'), at('absent'))).toContain('absent');
    fs.mkdirSync(at('both'));
    const rows = readJsonl<Record<string, unknown>>(at('first/rows.jsonl'));
    writeJsonl(at('both/rows.jsonl'), [...rows, ...rows.map((row) => ({ ...row, calibration: 'temperature' }))]);
    expect(await failure(2, 'compare', at('both'), at('first'))).toContain('both uncalibrated and temperature');
  });
});
