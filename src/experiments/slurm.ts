import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { makeFolder, readJson, toJson, writeFile } from '../base/files';
import environment from '../setup/environment.json';
import { lastLine, type Board } from './board';
import { claim, discardClaim, holderOf } from './claim';
import { failureOf, FILES, isDone, pointFolder } from './perform';

/** What a job is given, in Slurm's own words where they are texts. */
export interface SlurmResources {
  partition?: string | undefined;
  time?: string | undefined;
  /** GiB a point. */
  memory?: number | undefined;
  gpus?: number | undefined;
  cpus?: number | undefined;
  /** Tasks of the array that may run at once. */
  parallel?: number | undefined;
  /** More options of sbatch, such as `--account=lab`. */
  extra?: readonly string[] | undefined;
}

export interface SlurmOptions extends SlurmResources {
  /** What jobs are called, before a random part. */
  name: string;
  /** Times that a failed, killed or preempted point is submitted again. */
  retries: number;
  /** The command of a point's process, as it is on the nodes; the point's folder is added. */
  command: readonly string[];
  signal?: AbortSignal | undefined;
  /** ms between looks at the queue. */
  poll?: number;
}

/** An array that was, or was about to be, submitted: task i does point ids[i]. */
interface Submission {
  name: string;
  ids: string[];
}

interface Task {
  /** `123_4`, as squeue calls it. */
  job: string;
  state: string;
}

/** Slurm's default of MaxArraySize is 1001. */
const LARGEST_ARRAY = 1000;
/** States in which a task will not do anything more. */
const OVER = /^(BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REVOKED|TIMEOUT)$/;
/** How often a task must be seen to be over while its row is not: files of other nodes come late. */
const SURE = 2;

const folderOf = (out: string) => path.join(out, 'slurm');
const cancelFile = (out: string) => path.join(folderOf(out), 'cancelled');

/**
 * Runs points as Slurm job arrays: submits what is neither done nor in the queue, follows it, and submits again what has
 * ended without a row. What it knows is in files (`slurm/` holds each array's script and list, written before it is
 * submitted; points say themselves when they are done) and in Slurm's queue, so that it can be ended and started again,
 * and no accounting is needed. While the controller does not answer, it waits.
 *
 * Returns when every point is done or has failed, or when `signal` is aborted: jobs then go on.
 * @throws CalmError when Slurm is absent, does not answer at first, refuses a job, or the sweep is cancelled
 */
export async function runOnSlurm(out: string, board: Board, options: SlurmOptions): Promise<void> {
  const { retries, signal, poll = 10_000 } = options;
  makeFolder(folderOf(out));
  fs.rmSync(cancelFile(out), { force: true });
  await readQueue(out); // throws where there is no Slurm
  const absent = new Map<string, number>();
  const last = new Map<string, Task>();
  while (!signal?.aborted) {
    const queue = await unlessSilent(board, () => readQueue(out));
    const wanted: string[] = [];
    for (const id of queue ? board.with('waiting', 'queued', 'running', 'elsewhere') : []) {
      const { status, tries } = board.get(id);
      const task = queue!.get(id);
      const folder = pointFolder(out, id);
      if (isDone(folder)) {
        board.change(id, 'done', { known: tries === 0 });
      } else if (task && !OVER.test(task.state)) {
        absent.delete(id);
        last.set(id, task);
        const note = `job ${task.job}${task.state === 'RUNNING' || task.state === 'PENDING' ? '' : `, ${task.state.toLowerCase()}`}`;
        const runs = /^(RUNNING|COMPLETING|SUSPENDED|STOPPED)$/.test(task.state);
        const log = path.join(folder, FILES.log);
        board.change(id, runs ? 'running' : 'queued', {
          note: runs ? undefined : note,
          log,
          tries: Math.max(1, tries),
        });
      } else if (status === 'queued' || status === 'running') {
        const seen = (absent.get(id) ?? 0) + 1;
        absent.set(id, seen);
        if (seen < SURE) continue;
        absent.delete(id);
        const state = task?.state ?? 'gone from the queue';
        endClaim(folder, task ?? last.get(id));
        if (exitOf(folder)?.startsWith('75 ')) board.change(id, 'elsewhere', { tries: tries - 1 });
        else if (tries <= retries) board.change(id, 'waiting');
        else board.change(id, 'failed', { note: reasonOf(out, id, state, task ?? last.get(id)) });
      } else if (holderOf(path.join(folder, FILES.claim))) {
        board.change(id, 'elsewhere', { note: 'another sweep is at it' });
      } else {
        board.change(id, 'waiting');
      }
      if (board.get(id).status === 'waiting') wanted.push(id);
    }
    if (fs.existsSync(cancelFile(out))) {
      throw new CalmError('the sweep was cancelled', { remedy: 'run it again to go on' });
    }
    if (wanted.length > 0) await unlessSilent(board, () => submit(out, board, wanted, options));
    if (board.with('waiting', 'queued', 'running', 'elsewhere').length === 0) return;
    await pause(poll, signal);
  }
}

/**
 * Cancels the jobs of a sweep that are in the queue; what is done stays.
 * @returns how many points were queued or running
 */
export async function cancelOnSlurm(out: string): Promise<number> {
  const tasks = [...(await readQueue(out)).values()].filter(({ state }) => !OVER.test(state));
  makeFolder(folderOf(out));
  writeFile(cancelFile(out), `${new Date().toISOString()}\n`); // or a sweep that follows would submit them again
  const arrays = [...new Set(tasks.map(({ job }) => job.split('_')[0]!))];
  if (arrays.length > 0) await slurm('scancel', arrays);
  return tasks.length;
}

/** Submits points that are, under the eye of one sweep at a time, still not in the queue. */
async function submit(out: string, board: Board, wanted: readonly string[], options: SlurmOptions): Promise<void> {
  const lock = claim(path.join(folderOf(out), 'submit.lock'));
  if (!lock) return; // another sweep is submitting; next time
  try {
    const queue = await readQueue(out);
    const open = wanted.filter((id) => {
      const task = queue.get(id);
      return !isDone(pointFolder(out, id)) && (!task || OVER.test(task.state));
    });
    for (let from = 0; from < open.length; from += LARGEST_ARRAY) {
      const ids = open.slice(from, from + LARGEST_ARRAY);
      const name = `${options.name}-${randomBytes(4).toString('hex')}`;
      const at = (ending: string) => path.join(folderOf(out), `${name}.${ending}`);
      writeFile(at('sh'), script(out, { name, ids }, options.command));
      // First: a job that Slurm has taken while this process ends is then found by its name.
      writeFile(at('json'), toJson({ name, ids } satisfies Submission));
      for (const id of ids) {
        for (const file of [FILES.failure, 'exit.txt'])
          fs.rmSync(path.join(pointFolder(out, id), file), { force: true });
      }
      try {
        await slurm('sbatch', ['--parsable', ...resources(out, { name, ids }, options), at('sh')]);
      } catch (error) {
        if (error instanceof NoAnswer) throw error; // it may have been taken
        for (const ending of ['sh', 'json']) fs.rmSync(at(ending), { force: true });
        const { message } = error as CalmError;
        throw new CalmError(`Slurm refused the job: ${message}`, {
          remedy: 'check --partition, --time, --memory, --gpus and --sbatch; "sinfo" lists what there is',
          cause: error,
        });
      }
      for (const id of ids) board.change(id, 'queued', { tries: board.get(id).tries + 1 });
    }
  } finally {
    lock.release();
  }
}

const quote = (text: string) => `'${text.replace(/'/g, `'\\''`)}'`;

/** The options of sbatch for an array. */
export function resources(out: string, { name, ids }: Submission, options: SlurmResources): string[] {
  const { partition, time, memory, gpus, cpus, parallel, extra = [] } = options;
  return [
    `--job-name=${name}`,
    `--array=0-${ids.length - 1}${parallel === undefined ? '' : `%${parallel}`}`,
    `--output=${path.resolve(folderOf(out), name).replace(/%/g, '%%')}-%a.log`,
    ...(partition === undefined ? [] : [`--partition=${partition}`]),
    ...(time === undefined ? [] : [`--time=${time}`]),
    ...(memory === undefined ? [] : [`--mem=${Math.ceil(memory * 1024)}M`]),
    ...(gpus === undefined ? [] : [`--gres=gpu:${gpus}`]),
    ...(cpus === undefined ? [] : [`--cpus-per-task=${cpus}`]),
    ...extra,
  ];
}

/** The script of an array: each task does one point, and leaves a word in `exit.txt` when that fails. */
export function script(out: string, { ids }: Submission, command: readonly string[]): string {
  return [
    '#!/bin/sh',
    `set -- ${ids.join(' ')}`,
    'shift "$SLURM_ARRAY_TASK_ID"',
    `folder=${quote(path.resolve(out, 'points'))}/"$1"`,
    `${command.map(quote).join(' ')} "$folder" >>"$folder/${FILES.log}" 2>&1`,
    'code=$?',
    '[ "$code" -eq 0 ] || echo "$code $(hostname)" >"$folder/exit.txt"',
    'exit "$code"',
    '',
  ].join('\n');
}

function submissions(out: string): Submission[] {
  const folder = folderOf(out);
  if (!fs.existsSync(folder)) return [];
  const files = fs.readdirSync(folder).filter((file) => /^[^.].*\.json$/.test(file));
  return files.map((file) => readJson(path.join(folder, file)) as Submission);
}

/** The task of each point that Slurm still knows; of a point with several, the one that is not over. */
async function readQueue(out: string): Promise<Map<string, Task>> {
  const known = new Map(submissions(out).map(({ name, ids }) => [name, ids]));
  const user = os.userInfo().username;
  const text = await slurm('squeue', ['--noheader', '--array', '--states=all', `--user=${user}`, '--format=%i|%j|%T']);
  const tasks = new Map<string, Task>();
  for (const line of text.split('\n')) {
    const [job = '', name = '', state = ''] = line.trim().split('|');
    const id = known.get(name)?.[Number(job.split('_')[1])];
    if (id === undefined) continue;
    const before = tasks.get(id);
    if (!before || OVER.test(before.state)) tasks.set(id, { job, state });
  }
  return tasks;
}

/** Takes away the claim that a job has left which Slurm says is over. */
function endClaim(folder: string, task: Task | undefined): void {
  const file = path.join(folder, FILES.claim);
  const holder = holderOf(file);
  if (holder && task && holder.job === task.job) discardClaim(file, holder);
}

function exitOf(folder: string): string | undefined {
  const file = path.join(folder, 'exit.txt');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : undefined;
}

/** Why a point has failed: what it has said itself, else its exit code and last words, else what Slurm calls it. */
function reasonOf(out: string, id: string, state: string, task: Task | undefined): string {
  const folder = pointFolder(out, id);
  const said = failureOf(folder)?.line;
  if (said !== undefined) return said;
  const [code, node] = exitOf(folder)?.split(' ') ?? [];
  const words = lastLine(path.join(folder, FILES.log)) || (task ? lastLine(logOf(out, id, task)) : '');
  const ended = code === undefined ? `its job is ${state.toLowerCase()}` : `exit code ${code} on ${node}`;
  return `${ended}${words && `: ${words}`}`;
}

/** Slurm's own log of a task, which has what went wrong before the point's process began. */
function logOf(out: string, id: string, { job }: Task): string | undefined {
  const index = Number(job.split('_')[1]);
  const of = submissions(out).filter(({ ids }) => ids[index] === id);
  const files = of.map(({ name }) => path.join(folderOf(out), `${name}-${index}.log`)).filter(fs.existsSync);
  return files.sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs)[0];
}

/** Slurm is there, but its controller does not answer now. */
class NoAnswer extends CalmError {}

/** Waits out a controller that does not answer: what it does next time decides. */
async function unlessSilent<T>(board: Board, work: () => Promise<T>): Promise<T | undefined> {
  try {
    const result = await work();
    board.remark = '';
    return result;
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    board.remark = `${error.message}; waiting for it`;
    return undefined;
  }
}

/** Runs one of Slurm's commands. @returns what it prints @throws CalmError, NoAnswer */
async function slurm(command: 'sbatch' | 'squeue' | 'scancel', args: readonly string[]): Promise<string> {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...environment, ...process.env },
    timeout: 120_000,
  });
  let [said, complained] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (complained += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', (error: NodeJS.ErrnoException) =>
      reject(
        new CalmError(
          `${command} ${error.code === 'ENOENT' ? 'is not on this machine' : `cannot be started: ${error.message}`}`,
          {
            remedy: 'run this on a login node of the cluster, or with --executor local',
            cause: error,
          },
        ),
      ),
    );
    child.on('close', resolve);
  });
  if (code === 0) return said;
  const lines = complained.split('\n').map((line) => line.replace(/^(\w+: )?(error: )?/, '').trim());
  const words = lines.filter(Boolean).join(': ');
  if (
    code === null ||
    /unable to contact|timed out|connect failure|zero bytes|connection refused|not responding/i.test(complained)
  ) {
    throw new NoAnswer(`Slurm does not answer${words && ` (${words})`}`, { remedy: 'see "sinfo" and try again later' });
  }
  throw new CalmError(words || `${command} ended with exit code ${code}`);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}
