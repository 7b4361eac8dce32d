import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { calibrationFromJson } from '../../src/calibrate';
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
