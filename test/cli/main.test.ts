import { spawnSync } from 'node:child_process';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { program } from '../../src/cli/main';
import { calm, failure, workplace } from './calm';

const { at, write } = workplace();
const verbs = program().commands.map((command) => command.name());

describe('the command line', () => {
  it('has the verbs of the contract', () => {
    for (const verb of [
      'doctor',
      'fetch',
      'tokenize',
      'score',
      'generate',
      'eval',
      'compare',
      'import',
      'metrics',
      'fit',
      'report',
    ]) {
      expect(verbs).toContain(verb);
    }
  });

  it.each(verbs)('explains %s, and exits 0', async (verb) => {
    const { code, stdout, stderr } = await calm(verb, '--help');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`^Usage: calm ${verb} `));
    expect(stdout).toContain('--debug');
  });

  it('says its version, and what it can do when asked nothing', async () => {
    expect(await calm('--version')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
    });
    const { code, stdout, stderr } = await calm();
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('Usage: calm');
  });

  it.each<[string[], string]>([
    [['evaluate'], "unknown command 'evaluate'"],
    [['fitt', 'temperature', 'x'], "unknown command 'fitt' (Did you mean fit?)"],
    [['metrics'], "missing required argument 'predictions'"],
    [['metrics', 'a', 'b'], 'too many arguments'],
    [['metrics', 'a', '--bin', '5'], "unknown option '--bin' (Did you mean --bins?)"],
    [['metrics', 'a', '--bins', '0'], 'Expected an integer from 1 to 10000.'],
    [['metrics', 'a', '--bins', '2.5'], 'Expected an integer'],
    [['metrics', 'a', '--bins', '10001'], 'Expected an integer from 1 to 10000.'],
    [['metrics', 'a', '--bins', ''], 'Expected an integer'],
    [['eval', '--model', 'x', '--tasks', 'y'], "required option '--out <folder>' not specified"],
    [['generate', '--model', 'x', '--in', 'y', '--out', 'z', '--top-p', '1.5'], 'Expected a number from 0 to 1.'],
    [['generate', '--model', 'x', '--in', 'y', '--out', 'z', '--temperature', 'Infinity'], 'Expected a number from 0'],
    [['report', 'x', '--out', 'y', '--kind', 'pie'], 'Expected one of classwise_total, confidence.'],
  ])('%j is wrong usage: one line and exit 2', async (argv, message) => {
    expect(await failure(2, ...argv)).toContain(message);
  });

  it('shows where an error arose with --debug, before or after the verb', () => {
    const file = write('empty.jsonl', '');
    const main = path.join(__dirname, '../../src/setup/calm.cjs');
    for (const argv of [
      ['--debug', 'metrics', file],
      ['metrics', file, '--debug'],
    ]) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...argv], { encoding: 'utf8' });
      expect([status, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^calm: .*empty\.jsonl is empty; expected one JSON object per line\nCalmError: /);
      expect(stderr).toMatch(/\n {4}at /);
    }
  });
});

describe('the calm process', () => {
  const main = path.join(__dirname, '../../src/setup/calm.cjs');
  const child = (...argv: string[]) => spawnSync(process.execPath, [main, ...argv], { encoding: 'utf8' });

  it('exits 0, 1 and 2, with the result on stdout and one line on stderr', () => {
    const rows = write('rows.jsonl', [{ probs: [0.75, 0.25], label: 0 }]);
    const done = child('metrics', rows, '--json');
    expect([done.status, done.stderr]).toEqual([0, '']);
    expect(JSON.parse(done.stdout)).toMatchObject({ n: 1, accuracy: 1, conf_ece: 0.25 });
    const failed = child('metrics', at('absent.jsonl'), '--json');
    expect([failed.status, failed.stdout]).toEqual([1, '']);
    expect(failed.stderr).toBe(`calm: cannot read ${at('absent.jsonl')}: does not exist; check the path\n`);
    expect(child('metrics').status).toBe(2);
  });

  it('ends quietly when its reader closes the pipe', () => {
    const rows = write('rows.jsonl', [{ probs: [0.75, 0.25], label: 0 }]);
    const command = `set -o pipefail; "$0" "${main}" metrics "${rows}" --bins 10000 | head -n 1`;
    const { status, stdout, stderr } = spawnSync('bash', ['-c', command, process.execPath], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^n +1\n$/);
  });
});
