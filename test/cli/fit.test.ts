import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { applyPosthoc, calibrationFromJson, posthocFromJson } from '../../src/calibrate';
import { calm, calmJson, failure, workplace } from './calm';

const { at, write } = workplace();
const rows = (logits: number[], labels: number[]) => labels.map((label) => ({ logits, label }));

describe('calm fit temperature', () => {
  it('C-2: has the keys of the contract, and the right temperature', async () => {
    const file = write('c2.jsonl', rows([2, 0], [0, 0, 0, 1]));
    const json = await calmJson<Record<string, number>>('fit', 'temperature', file, '--out', at('t.json'));
    for (const key of ['status', 'temperature', 'bounded_temperature', 'nll_before', 'nll_after', 'metrics_before', 'metrics_after']) {
      expect(json).toHaveProperty(key);
    } // prettier-ignore
    expect(json['status']).toBe('finite');
    expect(json['temperature']).toBeCloseTo(2 / Math.log(3), 6);
    expect(json['metrics_after']).toMatchObject({ n: 4, accuracy: 0.75 });
    const written = calibrationFromJson(JSON.parse(fs.readFileSync(at('t.json'), 'utf8')));
    expect(written.applied_temperature).toBe(json['bounded_temperature']);
  });

  it('C-1: writes an infinite temperature as a word', async () => {
    const json = await calmJson('fit', 'temperature', write('c1.jsonl', rows([4, 0], [0, 1])));
    expect(json).toMatchObject({ status: 'at-infinity', temperature: 'Infinity', bounded_temperature: 10 });
  });

  it('prints the metrics before and after', async () => {
    const { code, stdout } = await calm('fit', 'temperature', write('c2.jsonl', rows([2, 0], [0, 0, 0, 1])));
    expect(code).toBe(0);
    expect(stdout).toMatch(/^status finite, T = 1\.82\d*, within 0\.1 to 10: 1\.82\d*\n/);
    expect(stdout).toMatch(/\nconf_ece +0\.130797 +0\.000000\n/);
  });

  it('refuses an unknown method, and an output that cannot be', async () => {
    const file = write('c2.jsonl', rows([2, 0], [0, 0, 0, 1]));
    expect(await failure(2, 'fit', 'temprature', file)).toBe('unknown method "temprature"; did you mean temperature?');
    expect(await failure(1, 'fit', 'temperature', file, '--out', `${file}/t.json`)).toMatch(/cannot write .*c2\.jsonl/);
  });
});

describe('calm fit of the relatives of temperature', () => {
  // Three of four right at log-odds 1, one of four at -1, whatever the third option says.
  const levels = [
    ...rows([1, 0, -1], [0, 0, 0, 1, 2]),
    ...rows([0, 1, 0], [0, 1, 1, 1, 2]),
    ...rows([0.5, 0, 2], [2, 2, 2, 1, 0]),
    ...rows([1, 1.5, 0], [0, 1, 2]),
  ];
  const methods = ['vector', 'matrix', 'platt', 'isotonic', 'histogram', 'beta', 'ets'];

  it.each(methods)('%s: gives parameters and metrics, and writes what reads back', async (method) => {
    const file = write('levels.jsonl', levels);
    const json = await calmJson<Record<string, unknown>>('fit', method, file, '--out', at(`${method}.json`));
    for (const key of ['status', 'n', 'nll_before', 'nll_after', 'metrics_before', 'metrics_after']) {
      expect(json).toHaveProperty(key);
    }
    expect(json['status']).toMatch(/^(converged|under-determined)$/);
    expect(json['metrics_after']).toMatchObject({ n: 18, convention: { bins: 10 } });
    const written = posthocFromJson(JSON.parse(fs.readFileSync(at(`${method}.json`), 'utf8')));
    const { version: _version, method: name, ...fields } = written;
    expect(name).toBe(method);
    const { metrics_before: _before, metrics_after: _after, ...said } = json;
    const finite = (value: unknown) => (value === 'Infinity' ? Infinity : value);
    expect({ ...said, nll_after: finite(said['nll_after']) }).toEqual(fields);
    expect(applyPosthoc(written, { logits: [1, 0, -1] }).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
  });

  it('takes options, and prints the parameters with the metrics before and after', async () => {
    const file = write('levels.jsonl', levels);
    const { code, stdout } = await calm('fit', 'platt', file, '--set', 'construction=top-label');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^status converged\nconstruction top-label\nclasses null\nmaps \[status converged slope \S+ inter/,
    );
    expect(stdout).toMatch(/\nconf_ece +0\.\d{6} +0\.\d{6}\n/);
    const odir = await calmJson('fit', 'matrix', file, '--set', 'lambda=0.5', '--set', 'mu=0.25');
    expect(odir).toMatchObject({ lambda: 0.5, mu: 0.25 });
    const bins = await calmJson<{ maps: { counts: number[] }[] }>('fit', 'histogram', file, '--set', 'bins=3');
    expect(bins.maps[0]!.counts).toHaveLength(3);
  });

  it('says what each is and takes in its help', async () => {
    const { stdout } = await calm('fit', '--help');
    for (const method of ['temperature', ...methods]) expect(stdout).toMatch(new RegExp(`\n  ${method} +\\S`));
    expect(stdout).toMatch(/lambda=0 +ODIR/);
  });

  it('refuses options that are none, and rows that differ in length', async () => {
    const file = write('levels.jsonl', levels);
    expect(await failure(2, 'fit', 'matrix', file, '--set', 'lamda=1')).toBe(
      'unknown option of matrix "lamda"; did you mean lambda?',
    );
    expect(await failure(2, 'fit', 'matrix', file, '--set', 'lambda=-1')).toMatch(/^option lambda: /);
    expect(await failure(2, 'fit', 'matrix', file, '--set', 'lambda')).toMatch(/"lambda" is not an option/);
    expect(await failure(2, 'fit', 'temperature', file, '--set', 'T=1')).toMatch(/temperature has no options/);
    const ragged = write('ragged.jsonl', [...rows([1, 0], [0, 1]), ...rows([1, 0, 2], [0])]);
    expect(await failure(1, 'fit', 'vector', ragged)).toMatch(
      /ragged\.jsonl, line 3: 3 options, where the first row has 2/,
    );
    expect(await failure(1, 'fit', 'beta', write('bad.jsonl', [{ logits: [1, 0], label: 2 }]))).toMatch(
      /line 1: label is 2/,
    );
  });
});
