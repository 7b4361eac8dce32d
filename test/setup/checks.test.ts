import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { load, temporaryFolder } from './tools';

type Run = (script: string, args: string[]) => Promise<number>;
const { countsLine, runChecks } = load<{
  countsLine: (report: object | undefined) => string;
  runChecks: (root: string, run: Run, failedBefore: number) => Promise<number>;
}>('checks.cjs');

const test = (status: string) => ({ status });
const report = (counts: { passed: number; failed: number; pending?: number; todo?: number }, files: object[] = []) => ({
  numPassedTests: counts.passed,
  numFailedTests: counts.failed,
  numPendingTests: counts.pending ?? 0,
  numTodoTests: counts.todo ?? 0,
  testResults: files,
});

describe('the counts at the end of npm test', () => {
  it.each([
    ['all passed', report({ passed: 12, failed: 0 }), '12 passed, 0 failed'],
    ['skipped and to do', report({ passed: 3, failed: 1, pending: 2, todo: 1 }), '3 passed, 1 failed'],
    [
      'a file that failed before its tests',
      report({ passed: 3, failed: 0 }, [
        { status: 'passed', assertionResults: [test('passed')] },
        { status: 'failed', assertionResults: [] },
      ]),
      '3 passed, 1 failed',
    ],
    [
      'a file with a failed test is counted once',
      report({ passed: 3, failed: 1 }, [{ status: 'failed', assertionResults: [test('failed')] }]),
      '3 passed, 1 failed',
    ],
    ['vitest did not run', undefined, '0 passed, 1 failed'],
  ])('%s', (_name, json, line) => {
    expect(countsLine(json)).toBe(line);
  });
});

describe('npm test', () => {
  afterEach(() => vi.restoreAllMocks());

  /** Runs the checks with the given exit codes; vitest leaves a report of five passed tests. */
  async function check(codes: Record<string, number>, failedBefore = 0) {
    const root = temporaryFolder();
    fs.mkdirSync(path.join(root, '.cache'));
    let out = '';
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
      out += String(text);
      return true;
    });
    const ran: string[] = [];
    const code = await runChecks(
      root,
      async (script, args) => {
        const name = path.basename(script);
        ran.push(name);
        const file = args.find((arg) => arg.startsWith('--outputFile.json='))?.split('=')[1];
        if (file) fs.writeFileSync(file, JSON.stringify(report({ passed: 5, failed: 0 })));
        return codes[name] ?? 0;
      },
      failedBefore,
    );
    vi.restoreAllMocks();
    return { code, ran, lines: out.trim().split('\n') };
  }

  it('runs everything and succeeds when everything does', async () => {
    const { code, ran, lines } = await check({});
    expect(code).toBe(0);
    expect(ran).toEqual(['tsc', 'eslint.js', 'prettier.cjs', 'vitest.mjs']);
    expect(lines.slice(-2)).toEqual(['types ok, lint ok, format ok, tests ok', '5 passed, 0 failed']);
  });

  it.each(['tsc', 'eslint.js', 'prettier.cjs', 'vitest.mjs'])(
    'fails when %s does, and runs the others all the same',
    async (name) => {
      const { code, ran, lines } = await check({ [name]: 2 });
      expect(code).toBe(1);
      expect(ran).toHaveLength(4);
      expect(lines.at(-2)).toMatch(/FAILED/);
      expect(lines.at(-1)).toBe('5 passed, 0 failed');
    },
  );

  it('fails when a part of the set-up did, even though everything passes', async () => {
    const { code, lines } = await check({}, 1);
    expect(code).toBe(1);
    expect(lines.at(-2)).toMatch(/^set-up FAILED, /);
  });
});
