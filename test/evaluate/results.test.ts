import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { setQuiet } from '../../src/base/progress';
import {
  evaluate,
  loadTask,
  readResults,
  readRows,
  withTemperature,
  writeResults,
  type Result,
} from '../../src/evaluate';
import { loadModel } from '../../src/pretrained';
import { calmError, temporaryFolder } from '../model/make-files';
import { writeTinyFolder } from './tiny-folder';

const folder = temporaryFolder();
let results: Result[];
beforeAll(async () => {
  setQuiet(true);
  const model = await loadModel(writeTinyFolder(path.join(folder, 'model')));
  const task = await loadTask('starter', { limit: 12 });
  const before = await evaluate(model, task, { scoring: 'cloze', normalisation: 'byte', resamples: 50 });
  results = [before, withTemperature(before, 0, { resamples: 50 })]; // at T = 0 the NLL is infinite
  model.dispose();
});

const fresh = () => fs.mkdtempSync(path.join(folder, 'run-'));
const summaryOf = ({ rows: _rows, ...rest }: Result) => rest;

describe('writeResults and readResults', () => {
  it('come back as they went, Infinity included', async () => {
    const run = path.join(fresh(), 'made', 'on the way');
    writeResults(run, results);
    expect(readResults(run)).toEqual(results.map(summaryOf));
    expect(readResults(path.join(run, 'results.json'))).toEqual(readResults(run));
    expect(readResults(run)[1]!.metrics['nll']!.value).toBe(Infinity);
    const rows = results.flatMap(({ rows, scoring, calibration }) => rows.map((r) => ({ ...r, scoring, calibration })));
    expect(await readRows(run)).toEqual(rows);
    expect(fs.readdirSync(run).sort()).toEqual(['results.json', 'rows.jsonl']);
  });

  it('are JSON that any program reads: no bare NaN or Infinity', () => {
    const run = fresh();
    writeResults(run, results);
    const text = fs.readFileSync(path.join(run, 'results.json'), 'utf8');
    const json = JSON.parse(text) as { results: { metrics: Record<string, { value: unknown; stderr: unknown }> }[] };
    expect(json.results[1]!.metrics['nll']).toMatchObject({ value: 'Infinity', stderr: null });
    expect(text).not.toMatch(/[:[,]\s*-?(NaN|Infinity)/);
  });

  it('read a file of a version without examples', () => {
    const run = fresh();
    writeResults(run, results);
    const file = path.join(run, 'results.json');
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/"shots": 0,/g, ''));
    expect(fs.readFileSync(file, 'utf8')).not.toContain('shots');
    expect(readResults(run)[0]!.shots).toBe(0);
  });
});

describe('writeResults', () => {
  const listed = (run: string) => fs.readdirSync(run).sort();

  it('replaces an earlier run', () => {
    const run = fresh();
    writeResults(run, results);
    writeResults(run, [results[0]!]);
    expect(readResults(run)).toHaveLength(1);
    expect(listed(run)).toEqual(['results.json', 'rows.jsonl']);
  });

  it('leaves an earlier run and nothing half-written where it fails', async () => {
    const run = fresh();
    writeResults(run, [results[0]!]);
    const unwritable = { ...results[1]!, metrics: 1n as never }; // JSON has no such number
    expect(() => writeResults(run, [results[1]!, unwritable])).toThrow(TypeError);
    expect(readResults(run)).toEqual([summaryOf(results[0]!)]);
    expect((await readRows(run)).length).toBe(results[0]!.n);
    expect(listed(run)).toEqual(['results.json', 'rows.jsonl']);
  });

  it('says where it cannot write, and leaves nothing', () => {
    const run = fresh();
    fs.mkdirSync(path.join(run, 'results.json'));
    expect(calmError(() => writeResults(run, results)).line).toMatch(/results\.json: is a folder; name a file/);
    expect(listed(run)).toEqual(['results.json']);
    const file = path.join(run, 'file');
    fs.writeFileSync(file, '');
    expect(calmError(() => writeResults(path.join(file, 'below'), results)).line).toContain('not a folder');
    expect(() => writeResults('/dev/null/x', results)).toThrow(CalmError);
  });
});

describe('readResults', () => {
  it.each<[string, string, RegExp]>([
    ['not JSON', '{"results": [', /results\.json is not JSON/],
    ['something else', '{"rows": []}', /is not a results file: results .*; name a folder written by "calm eval --out"/],
    ['half of a result', '{"results": [{"task": "x"}]}', /results\.0\.task_version/],
    ['an empty file', '', /is not JSON/],
  ])('refuses %s', (_what, text, message) => {
    const run = fresh();
    fs.writeFileSync(path.join(run, 'results.json'), text);
    expect(calmError(() => readResults(run)).line).toMatch(message);
  });

  it('refuses what is not there', async () => {
    expect(calmError(() => readResults(path.join(folder, 'absent'))).line).toMatch(/absent: does not exist/);
    expect(calmError(() => readResults(fresh())).line).toMatch(/results\.json: does not exist/);
    await expect(readRows(fresh())).rejects.toThrow(/rows\.jsonl: does not exist/);
  });
});
