import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import ts from 'typescript';
import { afterAll } from 'vitest';
import type { PointRow } from '../../src/experiments';

const SRC = path.join(__dirname, '../../src');

/** What a stub does instead of a point, in its `point.json`. */
export interface Stub {
  ms?: number;
  /** Fails with this line: every time, or the first n times. */
  fails?: string;
  times?: number;
  /** Ends itself by SIGKILL. */
  dies?: boolean;
  /** MiB that it holds. */
  holds?: number;
}

const PROGRAM = `
const fs = require('node:fs');
const path = require('node:path');
const { performPoint } = require('./experiments/perform.js');
const { CalmError } = require('./base/errors.js');
performPoint(process.argv[2], async (point, folder) => {
  const stub = point.stub ?? JSON.parse(process.env.STUB ?? '{}');
  const runs = path.join(folder, 'runs.txt');
  fs.appendFileSync(runs, process.pid + '\\n');
  const times = fs.readFileSync(runs, 'utf8').trim().split('\\n').length;
  console.log('begins', point.id);
  const held = Buffer.alloc((stub.holds ?? 0) * 2 ** 20, 1);
  const until = Date.now() + (stub.ms ?? 0);
  while (Date.now() < until) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, until - Date.now());
  if (stub.dies) process.kill(process.pid, 'SIGKILL');
  if (stub.fails && times <= (stub.times ?? Infinity)) throw new CalmError(stub.fails);
  const metric = (value) => ({ value, stderr: null, interval: null, higher_is_better: true });
  const measured = { n: 1 + held.length * 0, task: 't', split: 's', metrics: { accuracy: metric(0.5), conf_ece: metric(0.1 + 0.01 * (point.seed ?? 0)) } };
  return { ...point, model: 'tiny', model_hash: 'x', validation: measured, test: measured, code_version: '0', engine: 'stub',
    cost: { wall_seconds: performance.now() / 1000, train_seconds: 0, evaluate_seconds: 0, peak_memory_mib: process.memoryUsage.rss() / 2 ** 20, tokens_trained: 0, host: 'here', finished: '' } };
}).then((code) => process.exit(code));
`;

/**
 * A folder, and a command that does as a point's process does (claim, row or failure) but sleeps instead of computing: no
 * build, no TensorFlow, a fifth of a second a point.
 */
export function stubs(): { folder: string; at: (name: string) => string; command: string[] } {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-sweep-'));
  afterAll(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const at = (name: string) => path.join(folder, name);
  const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022, esModuleInterop: true };
  for (const file of ['base/errors', 'base/files', 'experiments/claim', 'experiments/perform']) {
    const { outputText } = ts.transpileModule(fs.readFileSync(path.join(SRC, `${file}.ts`), 'utf8'), {
      compilerOptions,
    });
    fs.mkdirSync(path.dirname(at(`stub/${file}`)), { recursive: true });
    fs.writeFileSync(at(`stub/${file}.js`), outputText);
  }
  fs.writeFileSync(at('stub/stub.js'), PROGRAM);
  return { folder, at, command: [process.execPath, at('stub/stub.js')] };
}

/** Writes the points of a sweep of stubs. @returns their ids */
export function writeStubs(out: string, points: Readonly<Record<string, Stub>>): string[] {
  for (const [id, stub] of Object.entries(points)) {
    const folder = path.join(out, 'points', id);
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(path.join(folder, 'point.json'), JSON.stringify({ id, stub }));
  }
  return Object.keys(points);
}

/** How often a stub has run. */
export function runsOf(out: string, id: string): number {
  const file = path.join(out, 'points', id, 'runs.txt');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim().split('\n').length : 0;
}

/** Waits for something that a process does. @throws when it has not within 20 s */
export async function until(what: string, done: () => boolean): Promise<void> {
  for (const stop = Date.now() + 20_000; !done(); await new Promise((resolve) => setTimeout(resolve, 10))) {
    if (Date.now() > stop) throw new Error(`waited 20 s for ${what}`);
  }
}

/** A row as a point leaves it, with the metrics that the selection looks at. */
export function row(fields: Partial<PointRow> & { accuracy?: number; ece?: number; testEce?: number }): PointRow {
  const { accuracy = 0.5, ece = 0.1, testEce = ece, ...rest } = fields;
  const metric = (value: number) => ({ value, stderr: null, interval: null, higher_is_better: false });
  const measured = (confEce: number) => ({
    n: 10,
    task: 't',
    split: 's',
    metrics: { accuracy: metric(accuracy), conf_ece: metric(confEce) },
    bins: { confidence: [], classwise_total: [] },
  });
  return {
    id: 'p',
    model: 'm',
    model_hash: 'h',
    setting: 'id',
    label: rest.method ?? 'calm',
    method: 'calm',
    options: {},
    varied: {},
    seed: 0,
    validation: measured(ece),
    test: measured(testEce),
    code_version: '1',
    engine: 'e',
    cost: {
      wall_seconds: 10,
      train_seconds: 8,
      evaluate_seconds: 1,
      peak_memory_mib: 100,
      tokens_trained: 800,
      host: 'h',
      finished: '',
    },
    ...rest,
  };
}
