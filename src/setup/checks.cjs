'use strict';
const fs = require('node:fs');
const path = require('node:path');

/**
 * The last line of `npm test`, from vitest's JSON report. A test file that failed before its tests ran counts as one
 * failed test; without a report nothing ran, which is a failure too.
 * @param {object | undefined} report
 */
function countsLine(report) {
  if (!report) return '0 passed, 1 failed';
  const broken = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  ).length;
  return `${report.numPassedTests} passed, ${report.numFailedTests + broken} failed`;
}

function readReport(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Types, lint, format and tests, each run whatever the others said.
 * @param {string} root
 * @param {(script: string, args: string[]) => Promise<number>} run
 * @param {number} failedBefore how many stages of the set-up failed
 * @returns the exit code; the counts are the last line printed
 */
async function runChecks(root, run, failedBefore) {
  const bin = (file) => path.join(root, 'node_modules', file);
  const reportFile = path.join(root, '.cache', 'vitest.json');
  fs.rmSync(reportFile, { force: true });
  const checks = [
    ['types', bin('typescript/bin/tsc'), ['--noEmit']],
    ['lint', bin('eslint/bin/eslint.js'), ['.', '--max-warnings', '0']],
    ['format', bin('prettier/bin/prettier.cjs'), ['--check', '--log-level', 'warn', '.']],
    [
      'tests',
      bin('vitest/vitest.mjs'),
      ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`],
    ],
  ];
  const verdicts = failedBefore > 0 ? ['set-up FAILED'] : [];
  let failed = failedBefore > 0;
  for (const [name, script, args] of checks) {
    process.stdout.write(`\n== ${name}\n`);
    const code = await run(script, args);
    failed ||= code !== 0;
    verdicts.push(`${name} ${code === 0 ? 'ok' : 'FAILED'}`);
  }
  const report = readReport(reportFile);
  const skipped = report ? report.numPendingTests + report.numTodoTests : 0;
  if (skipped > 0) verdicts.push(`${skipped} tests skipped`);
  process.stdout.write(`\n${verdicts.join(', ')}\n${countsLine(report)}\n`);
  return failed ? 1 : 0;
}

module.exports = { countsLine, runChecks };
