import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { PACKAGE_ROOT } from '../../src/base/presets';
import { kernelInstalled } from '../../src/setup/kernel';
import { venvCommand } from '../../src/setup/paths';

const FOLDER = path.join(PACKAGE_ROOT, 'notebooks');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-notebook-'));
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

interface Output {
  output_type: string;
  data?: Record<string, unknown>;
  text?: string | string[];
}
interface Notebook {
  cells: { cell_type: string; source: string | string[]; outputs?: Output[] }[];
  /** What takes longer than a test should: run by `npm run test:slow`. */
  metadata: { calm?: { slow?: boolean; needs?: string } };
}

const text = (source: string | string[]) => (Array.isArray(source) ? source.join('') : source);
const read = (file: string) => JSON.parse(fs.readFileSync(file, 'utf8')) as Notebook;
const outputs = (notebook: Notebook) => notebook.cells.flatMap((cell) => cell.outputs ?? []);
const tables = (notebook: Notebook) =>
  outputs(notebook).flatMap(({ data }) => (data?.['text/markdown'] ? [text(data['text/markdown'] as string)] : []));

/** Runs a notebook through Jupyter with the project's kernel; a cell that fails gives a non-zero status. */
function execute(
  file: string,
  scale?: string,
): { status: number | null; stderr: string; notebook: Notebook | undefined } {
  const done = path.join(scratch, `done-${path.basename(file)}`);
  const args = ['nbconvert', '--to', 'notebook', '--execute', '--output', done, file];
  const env = { ...process.env, ...(scale !== undefined && { CALM_SCALE: scale }) };
  const { status, stderr } = spawnSync(venvCommand('jupyter'), args, { cwd: FOLDER, encoding: 'utf8', env });
  return { status, stderr, notebook: fs.existsSync(done) ? read(done) : undefined };
}

/** Writes a notebook of one cell. */
function write(file: string, source: string): void {
  const cell = { cell_type: 'code', id: 'a', metadata: {}, execution_count: null, outputs: [], source };
  const kernelspec = { name: 'tslab', display_name: 'tslab', language: 'typescript' };
  fs.writeFileSync(file, JSON.stringify({ cells: [cell], metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 }));
}

/** The numbers in text, for a comparison that allows for another machine's rounding. */
const numbers = (markdown: string) => (markdown.match(/\d+(\.\d+)?/g) ?? []).map(Number);

test('there is a kernel to run notebooks in', () => {
  expect(kernelInstalled(), 'run "npm start"').toBe(true);
});

// The kernel throws at a message too many while the event loop stands still (some 500).
test('a cell that shows progress thousands of times in one go is not stopped by it', { timeout: 120_000 }, () => {
  const file = path.join(scratch, 'talkative.ipynb');
  const progress = JSON.stringify(path.join(PACKAGE_ROOT, '.build', 'base', 'progress.js'));
  write(
    file,
    `const { breathe, startProgress } = require(${progress});
const now = Date.now;
let ahead = 0;
Date.now = () => now() + (ahead += 1e6); // every update is due
for (let run = 0; run < 3; run++) {
  const bar = startProgress('talking', 1000);
  for (let i = 0; i < 1000; i++) bar.update(i);
  bar.stop();
  await breathe();
}
console.log('went through');`,
  );
  const { status, stderr, notebook } = execute(file);
  expect(status, stderr).toBe(0);
  const said = JSON.stringify(outputs(notebook!));
  expect(said).toContain('went through');
  expect(said).toContain('talking 1000/1000');
});

test('a cell that throws fails the notebook (case N-2)', { timeout: 120_000 }, () => {
  const file = path.join(scratch, 'failing.ipynb');
  write(file, 'throw new Error("on purpose")');
  const { status, stderr, notebook } = execute(file);
  expect(status).not.toBe(0);
  expect(stderr).toContain('CellExecutionError');
  expect(notebook).toBeUndefined();
});

// What the committed outputs show took hours; the same cells are run on a model that is made in a minute.
const scaled = ['04-mcqa.ipynb', '05-search-and-cost.ipynb', '06-robustness.ipynb'];
describe.each(scaled)('%s at the scale `tiny`', (name) => {
  test('runs from training to figures', { timeout: 1_200_000 }, () => {
    const { status, stderr, notebook } = execute(path.join(FOLDER, name), 'tiny');
    expect(status, stderr).toBe(0);
    const shown = tables(notebook!);
    expect(shown.some((table) => /\btoy\b/.test(table))).toBe(true);
    expect(shown.join('\n')).not.toMatch(/NaN|undefined/);
    // The toy is overconfident, and a temperature from the same questions repairs it.
    if (name === scaled[0]) expect(shown.join('\n')).toMatch(/\| TS lowers conf-ECE \| 4 of 4 models \| yes: /);
  });
});

const SLOW = process.env['MODE'] === 'slow';
const files = fs.readdirSync(FOLDER).filter((file) => file.endsWith('.ipynb'));
describe.each(files)('%s', (name) => {
  const committed = read(path.join(FOLDER, name));
  const { slow = false, needs = '' } = committed.metadata.calm ?? {};
  const missing = slow && (!SLOW || (needs !== '' && !fs.existsSync(path.resolve(FOLDER, needs))));
  test.skipIf(missing)('runs, and its committed outputs are what it gives', { timeout: 3_600_000 }, () => {
    const { status, stderr, notebook } = execute(path.join(FOLDER, name));
    expect(status, stderr).toBe(0);
    // Progress, which is text alone, depends on what an earlier run has kept.
    const kinds = (n: Notebook) =>
      n.cells.map((cell) =>
        (cell.outputs ?? []).map(({ data }) => Object.keys(data ?? {})).filter((k) => k.join() !== 'text/plain'),
      );
    expect(kinds(notebook!)).toEqual(kinds(committed));
    const found = tables(notebook!).flatMap(numbers);
    const expected = tables(committed).flatMap(numbers);
    expect(found.length).toBe(expected.length);
    found.forEach((value, i) =>
      expect(Math.abs(value - expected[i]!)).toBeLessThanOrEqual(2e-3 * Math.max(1, expected[i]!)),
    );
  });
});
