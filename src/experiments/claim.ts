import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import { Worker } from 'node:worker_threads';
import { systemCode } from '../base/errors';
import { fileError } from '../base/files';

/** Who works on a point: a process, by id and start time (ids are used again). */
export interface Holder {
  host: string;
  pid: number;
  start: string;
  nonce: string;
  /** The Slurm job that it runs in. */
  job?: string | undefined;
}

export interface Claim {
  release(): void;
}

/** How often a holder shows that it lives, and after how long of silence another host may take its place, in ms. */
const BEAT = 20_000;
const SILENCE = 300_000;

/** When a process of this machine started; undefined when it does not run. */
function startTime(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') {
      const fields = fs
        .readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return fields[0] === 'Z' ? undefined : fields[19];
    }
    process.kill(pid, 0);
    return 'running';
  } catch (error) {
    return systemCode(error) === 'EPERM' ? 'running' : undefined;
  }
}

/** `123_4`, as squeue calls a task of an array. */
function ownJob(): string | undefined {
  const { SLURM_ARRAY_JOB_ID: array, SLURM_ARRAY_TASK_ID: task, SLURM_JOB_ID: job } = process.env;
  return array !== undefined && task !== undefined ? `${array}_${task}` : job;
}

/** A claim that a crash of the machine has emptied is nobody's. */
function parse(text: string): Holder {
  try {
    return JSON.parse(text) as Holder;
  } catch {
    return { host: os.hostname(), pid: 0, start: 'never', nonce: 'damaged' };
  }
}

function read(file: string): { holder: Holder; alive: boolean } | undefined {
  try {
    const holder = parse(fs.readFileSync(file, 'utf8'));
    const silent = Date.now() - fs.statSync(file).mtimeMs;
    if (holder.host === os.hostname()) return { holder, alive: startTime(holder.pid) === holder.start };
    // One of our own job is what Slurm has ended before it put the job into the queue again.
    return { holder, alive: silent < SILENCE && (holder.job === undefined || holder.job !== ownJob()) };
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw fileError(error, file, 'read');
  }
}

/** The living process that has claimed a file, if one has. */
export function holderOf(file: string): Holder | undefined {
  const found = read(file);
  return found?.alive ? found.holder : undefined;
}

/**
 * Claims a file for this process, once among all processes and hosts that share the folder. The claim of a process that
 * no longer runs here, or that has been silent for five minutes elsewhere, is taken over: by one only, for there is one
 * marker for each claim that may be taken over.
 * @returns undefined when another process has it
 * @throws CalmError when the folder cannot be written
 */
export function claim(file: string): Claim | undefined {
  const own: Holder = {
    host: os.hostname(),
    pid: process.pid,
    start: startTime(process.pid) ?? '',
    nonce: randomBytes(6).toString('hex'),
    job: ownJob(),
  };
  const partial = `${file}.${own.nonce}.partial`;
  try {
    fs.writeFileSync(partial, JSON.stringify(own));
    // A link appears with its contents, or not at all.
    if (!exclusively(() => fs.linkSync(partial, file)) && !takeOver(file, partial)) return undefined;
  } catch (error) {
    throw fileError(error, file, 'write');
  } finally {
    fs.rmSync(partial, { force: true });
  }
  const stop = beat(file, own.nonce);
  let held = true;
  const release = () => {
    if (!held) return;
    held = false;
    stop();
    process.removeListener('exit', release);
    if (read(file)?.holder.nonce === own.nonce) fs.rmSync(file, { force: true });
  };
  process.on('exit', release);
  return { release };
}

/** @returns false where something of that name is there */
function exclusively(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (systemCode(error) === 'EEXIST') return false;
    throw error;
  }
}

function takeOver(file: string, partial: string): boolean {
  const seen = read(file);
  if (seen === undefined) return exclusively(() => fs.linkSync(partial, file)); // released in the meantime
  if (seen.alive) return false;
  return underMarker(file, seen.holder.nonce, () => fs.renameSync(partial, file));
}

/**
 * Takes away the claim of a process that is known to have ended.
 * @returns false when it has gone already
 */
export function discardClaim(file: string, { nonce }: Holder): boolean {
  try {
    return underMarker(file, nonce, () => fs.rmSync(file, { force: true }));
  } catch (error) {
    throw fileError(error, file, 'write');
  }
}

/** Does something to the claim of a dead process, as the only one of those who would. */
function underMarker(file: string, nonce: string, work: () => void): boolean {
  const marker = `${file}.${nonce}.over`;
  const age = Date.now() - (fs.statSync(marker, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  if (age > SILENCE) fs.rmSync(marker, { force: true }); // whoever made it was killed between two lines
  if (!exclusively(() => fs.writeFileSync(marker, '', { flag: 'wx' }))) return false;
  try {
    // Under the marker nobody else replaces the claim that was seen; somebody may have before the marker was made.
    if (read(file)?.holder.nonce !== nonce) return false;
    work();
    return true;
  } finally {
    fs.rmSync(marker, { force: true });
  }
}

/**
 * Shows that this process lives, from a thread of its own: training keeps the main one busy. A process that was asleep for
 * so long that another has taken its place ends.
 */
function beat(file: string, nonce: string): () => void {
  const worker = new Worker(
    `const fs = require('node:fs');
     const { workerData: { file, nonce } } = require('node:worker_threads');
     setInterval(() => {
       try {
         if (JSON.parse(fs.readFileSync(file, 'utf8')).nonce !== nonce) return process.kill(process.pid, 'SIGTERM');
         const now = new Date();
         fs.utimesSync(file, now, now);
       } catch {} // released, or the disk does not answer
     }, ${BEAT});`,
    { eval: true, workerData: { file, nonce } },
  );
  worker.unref();
  return () => void worker.terminate();
}
