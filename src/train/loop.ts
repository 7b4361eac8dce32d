import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError, UsageError } from '../base/errors';
import { fileError, makeFolder, readJson, toJson, writeFile } from '../base/files';
import { startProgress } from '../base/progress';
import { shortHash } from '../base/hash';
import { tf } from '../engine/backend';
import { dispose, leaves, map, type Tree } from '../engine/tree';
import { readCheckpoint, writeCheckpoint } from './checkpoint';
import { norm, optimise, warmupCosine, zeroMoments, type Moments, type OptimiserOptions } from './optimiser';

/** How one group of variables is updated. */
export interface Group {
  rate: number;
  weightDecay: number;
}

export type Variables = { [group: string]: Tree };

/** What one step of a method gives. */
export interface Step {
  /** Where to go against, for each group that moves; the loop disposes of them. */
  direction: Variables;
  /** How often each of them has moved, this step included; k + 1 when absent. */
  updates?: Record<string, number>;
  /** New values of variables that are in no group. */
  carried?: Variables;
  /** Numbers for the log. */
  numbers: Record<string, number>;
  /** Tokens that went through the model. */
  tokens: number;
  /** Which rows were used, for an error's sake. */
  rows: string;
}

/** A training method: what it changes and how it finds the way; the loop does the rest. */
export interface Method {
  /** What tells this run from another: method, options, data, model. */
  identity: Record<string, unknown>;
  steps: number;
  warmupSteps: number;
  /** Start values. The loop owns them. */
  variables: Variables;
  groups: Record<string, Group>;
  optimiser: OptimiserOptions;
  /** Gradients longer than this (all groups together) are scaled down to it; none by default. */
  clipNorm?: number | undefined;
  /** Passes in one step, for the progress display. */
  passes: number;
  /** Must follow from k, the variables and the method's seed alone, so that a resumed run equals an uninterrupted one. */
  step(k: number, variables: Variables, onPass: () => void): Step;
  /** Puts variables back into their box, after each update; new tensors, or the same. */
  project(variables: Variables): Variables;
  /** The numbers of a step that are shown, in a few words. */
  describe(numbers: Record<string, number>): string;
  /** A training loss above this is a divergence. */
  mostLoss: number;
  /** Measured every `every` steps and after the last; goes to the log. */
  validation?: { every: number; measure(variables: Variables): Record<string, number> } | undefined;
}

export interface RunOptions {
  /** Where run.json, log.jsonl and checkpoints go; nothing is written when absent. */
  out?: string | undefined;
  /** Continue the run in `out`. */
  resume?: boolean;
  /** Seconds between checkpoints; there is always one at the end. */
  checkpointSeconds?: number;
  /** Measures the validation rows now and then, which costs time but no step; by default true. */
  measure?: boolean;
}

/** One line of log.jsonl. */
export interface LogEntry {
  step: number;
  seconds: number;
  tokens_per_second: number;
  memory_mib: number;
  rates: Record<string, number>;
  [number: string]: unknown;
}

/**
 * Runs a method to its end: optimiser, schedule, clipping, projection, checkpoints, log and progress.
 * @returns the variables, which the caller disposes of, and the log
 * @throws CalmError when a number is not finite or the loss diverges (with the step, its rows and the last checkpoint),
 *   or when something cannot be written; UsageError when `out` holds a run and `resume` is not set
 */
export function runMethod(method: Method, options: RunOptions = {}): { variables: Variables; log: LogEntry[] } {
  const { out, resume = false, checkpointSeconds = 60, measure = true } = options;
  const identity = shortHash(toJson(method.identity));
  const run = new Run(out, identity, method, resume);
  let { variables, moments } = run.restore(method);
  const progress = startProgress(`training ${String(method.identity['method'])}`, method.steps * method.passes);
  let lastWrite = performance.now();
  for (let k = run.done; k < method.steps; k++) {
    const started = performance.now();
    let pass = 0;
    const note = run.log.at(-1);
    const shown = note ? method.describe(note as never) : '';
    const { direction, updates, carried, numbers, tokens, rows } = method.step(k, variables, () =>
      progress.update(k * method.passes + ++pass, shown),
    );
    const length = norm(direction);
    const wrong = Object.entries({ ...numbers, direction: length }).find(([, value]) => !Number.isFinite(value));
    const diverged = (numbers['loss'] ?? 0) > method.mostLoss;
    if (wrong || diverged) {
      progress.stop('stopped');
      dispose([direction, carried]);
      const what = wrong ? `${wrong[0]} is ${wrong[1]}` : `the loss has grown to ${numbers['loss']!.toFixed(2)}`;
      throw new CalmError(`training stopped at step ${k + 1}: ${what} (${rows})`, {
        remedy: `lower the rates${run.lastFile ? `; the last good checkpoint is ${run.lastFile}` : ''}`,
      });
    }
    const scale = method.clipNorm !== undefined && length > method.clipNorm ? method.clipNorm / length : 1;
    // Of steps + 1, so that neither the first nor the last step has a rate of 0.
    const share = warmupCosine(k + 1, method.warmupSteps, method.steps + 1);
    const rates: Record<string, number> = {};
    const [oldVariables, oldMoments] = [variables, moments];
    const moved: Variables = { ...variables, ...carried };
    const next: Record<string, Moments | undefined> = { ...moments };
    for (const [name, { rate, weightDecay }] of Object.entries(method.groups)) {
      rates[name] = rate * share;
      if (!(name in direction)) continue;
      const gradient = scale === 1 ? direction[name] : map(direction[name], (g) => tf.mul(g, scale));
      const result = optimise(method.optimiser, variables[name], gradient, moments[name], {
        step: updates?.[name] ?? k + 1,
        rate: rates[name],
        weightDecay,
      });
      if (scale !== 1) dispose(gradient);
      moved[name] = result.parameters;
      next[name] = result.moments;
    }
    variables = method.project(moved);
    moments = next;
    disposeUnless(moved, variables);
    disposeUnless([oldVariables, oldMoments, direction], [variables, moments]);
    const seconds = (performance.now() - started) / 1000;
    const last = k + 1 === method.steps;
    const validation = measure ? method.validation : undefined;
    const measured = validation && (last || (k + 1) % validation.every === 0) ? validation.measure(variables) : {};
    run.append({
      step: k + 1,
      ...numbers,
      direction_norm: length,
      ...measured,
      rates,
      seconds,
      tokens_per_second: tokens / seconds,
      memory_mib: process.memoryUsage.rss() / 2 ** 20,
    });
    if (out !== undefined && (last || performance.now() - lastWrite >= checkpointSeconds * 1000)) {
      run.checkpoint(k + 1, { variables, moments: moments as Tree });
      lastWrite = performance.now();
    }
  }
  const end = run.log.at(-1);
  progress.stop(end ? method.describe(end as never) : '');
  dispose(moments);
  run.finish();
  return { variables, log: run.log };
}

function disposeUnless(old: Tree, kept: Tree): void {
  const keep = new Set(leaves(kept).map(([, leaf]) => leaf));
  for (const [, leaf] of leaves(old)) if (!keep.has(leaf) && !leaf.isDisposed) leaf.dispose();
}

/** The files of a run. */
class Run {
  log: LogEntry[] = [];
  done = 0;
  lastFile: string | undefined;
  private readonly checkpoints: string | undefined;

  constructor(
    private readonly out: string | undefined,
    private readonly identity: string,
    private readonly method: Method,
    private readonly resume: boolean,
  ) {
    if (out === undefined) return;
    this.checkpoints = path.join(out, 'checkpoints');
    const there = fs.existsSync(this.file('run.json'));
    if (there && !resume) {
      throw new UsageError(`${out} holds a run already`, {
        remedy: 'continue it with --resume, or choose another --out',
      });
    }
    if (there) this.refuseOther();
    else if (resume) throw new UsageError(`${out} holds no run to resume`, { remedy: 'start one without --resume' });
    makeFolder(out);
    if (!there) this.write('running');
  }

  private file(name: string): string {
    return path.join(this.out!, name);
  }

  /** Names what differs from the run that is there. */
  private refuseOther(): void {
    const before = readJson(this.file('run.json')) as { identity?: Record<string, unknown> };
    const now = JSON.parse(toJson(this.method.identity)) as Record<string, unknown>;
    const differing = Object.keys({ ...before.identity, ...now }).find(
      (key) => JSON.stringify(before.identity?.[key]) !== JSON.stringify(now[key]),
    );
    if (differing === undefined) return;
    const said = (value: unknown) => JSON.stringify(value) ?? 'nothing';
    throw new UsageError(
      `${this.out} is a run with ${differing} ${said(before.identity?.[differing])}, not ${said(now[differing])}`,
      { remedy: 'resume with the same, or choose another --out' },
    );
  }

  private write(status: 'running' | 'done'): void {
    const { method, done } = this;
    const last = this.log.at(-1);
    writeFile(
      this.file('run.json'),
      `${toJson({ identity: method.identity, status, steps: method.steps, done, ...(last && { last }) }, 2)}\n`,
    );
  }

  /** The state to start from: the newest checkpoint's, or the method's own. */
  restore(method: Method): { variables: Variables; moments: Record<string, Moments | undefined> } {
    const { variables } = method;
    const moments = Object.fromEntries(
      Object.keys(method.groups).map((name) => [
        name,
        method.optimiser.optimiser === 'adamw' ? zeroMoments(variables[name]) : undefined,
      ]),
    );
    const start = { variables, moments: moments as Tree };
    if (!this.checkpoints || !this.resume) return { variables, moments };
    const found = readCheckpoint(this.checkpoints, start, this.identity, (text) => process.stderr.write(`${text}\n`));
    if (!found) return { variables, moments };
    dispose(start);
    this.done = found.step;
    // Steps after the checkpoint are run again, so their lines go.
    const lines = fs.existsSync(this.file('log.jsonl'))
      ? fs.readFileSync(this.file('log.jsonl'), 'utf8').split('\n')
      : [];
    this.log = lines.flatMap((line) => {
      try {
        const entry = JSON.parse(line) as LogEntry;
        return entry.step <= found.step ? [entry] : [];
      } catch {
        return []; // the end of a line that was being written
      }
    });
    writeFile(this.file('log.jsonl'), this.log.map((entry) => `${toJson(entry)}\n`).join(''));
    return found.state as never;
  }

  append(entry: LogEntry): void {
    this.log.push(entry);
    if (this.out === undefined) return;
    try {
      fs.appendFileSync(this.file('log.jsonl'), `${toJson(entry)}\n`);
    } catch (error) {
      throw fileError(error, this.file('log.jsonl'), 'write');
    }
  }

  checkpoint(step: number, state: Tree): void {
    this.lastFile = writeCheckpoint(this.checkpoints!, { step, state }, this.identity);
    this.done = step;
    this.write('running');
  }

  finish(): void {
    this.done = this.method.steps;
    if (this.out !== undefined) this.write('done');
  }
}
