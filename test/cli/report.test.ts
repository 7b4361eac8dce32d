import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { failure, workplace } from './calm';

const { at, write } = workplace();

// What it draws is tested in eval.test.ts, after the runs it needs.
describe('calm report', () => {
  it.each<[string, () => string, string]>([
    ['a run that is not there', () => at('absent'), 'absent: does not exist'],
    ['a folder without results', () => (fs.mkdirSync(at('bare'), { recursive: true }), at('bare')), 'results.json: does not exist'],
    ['half a file', () => write('half/results.json', '{"results": [{"task"'), 'results.json is not JSON'],
    ['a file of something else', () => write('rows.jsonl', [{ a: 1 }]), 'is not a results file: results'],
    ['a folder as results', () => (write('odd/results.json/x', ''), at('odd')), 'results.json: is a folder'],
  ])('refuses %s, and writes nothing', async (_what, run, message) => {
    expect(await failure(1, 'report', run(), '--out', at('figures'))).toContain(message);
    expect(fs.existsSync(at('figures'))).toBe(false);
  }); // prettier-ignore

  it('refuses a run without results', async () => {
    expect(await failure(2, 'report', write('none/results.json', '{"results": []}'), '--out', at('figures'))).toMatch(
      /\S/,
    );
    expect(fs.existsSync(at('figures'))).toBe(false);
  });
});
