import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { CalmError, UsageError } from '../base/errors';
import { makeFolder, readJson, toJson, writeFile } from '../base/files';
import { PACKAGE_ROOT } from '../base/presets';
import { Board, showBoard } from './board';
import { estimator, type Estimate } from './estimate';
import { runLocally } from './local';
import { FILES, isDone, pointFolder } from './perform';
import { checkPlan, type CheckedPlan, type Plan } from './plan';
import { pointsOf } from './points';
import { cancelOnSlurm, runOnSlurm, type SlurmResources } from './slurm';
import { readPointRows, readPointRowsFile, summariseRows, type Summary } from './summary';
import type { Point, PointRow } from './types';

export interface SweepOptions extends Omit<SlurmResources, 'parallel' | 'memory'> {
  /** Where `plan.json`, `points/`, `rows.jsonl` and `summary.json` go; a sweep that is there already is continued. */
  out: string;
  executor?: 'local' | 'slurm' | undefined;
  /** Rows of an earlier sweep (its rows.jsonl): the points that they are of are not run again. */
  known?: string | undefined;
  /** Points at once: processes here, by default 1; tasks of the array on Slurm, by default as many as it allows. */
  parallel?: number | undefined;
  /** GiB: of all processes together here, by default nine tenths of the machine; of each point on Slurm. */
  memory?: number | undefined;
  /** Times that a failed point is tried again; by default never here, and twice on Slurm. */
  retries?: number | undefined;
  /** Stops the sweep; what is done stays, and jobs on Slurm go on. */
  signal?: AbortSignal | undefined;
  /** A live table on stderr instead of a line now and then. */
  table?: boolean | undefined;
  /** The command that does a point, given its folder: `run-point.js`, unless a test has another. */
  command?: readonly string[] | undefined;
  /** ms between looks at the queue, or at memory. */
  poll?: number | undefined;
}

/** What a sweep came to. */
export interface Swept {
  out: string;
  summary: Summary;
  /** Points that failed, with the reason. */
  failed: { id: string; reason: string }[];
  /** Whether it was stopped before its end. */
  stopped: boolean;
  /** Wall time of the sweep, and of the processes of the points that it ran here. */
  seconds: number;
  point_seconds: number;
}

/** What a sweep would do. */
export interface Preview {
  points: (Pick<Point, 'id' | 'model' | 'setting' | 'label' | 'varied' | 'seed'> & Estimate & { done: boolean })[];
  /** Of the points that are not done, one after another. */
  seconds: number;
  /** Of the largest. */
  memory_mib: number;
}

/**
 * Runs what is missing of a plan's points, here or on Slurm, and gathers their rows: `rows.jsonl` has one row a point,
 * `summary.json` the chosen point of each method by the selection rule, means over seeds and measured costs. A failed
 * point does not stop the others; another sweep into the same folder shares the work.
 * @throws UsageError for a plan that cannot be run, or a folder of another plan; CalmError when the folder cannot be
 *   written or Slurm refuses
 */
export async function sweep(plan: Plan | CheckedPlan, options: SweepOptions): Promise<Swept> {
  const started = performance.now();
  const { out, executor = 'local', signal } = options;
  const checked = checkPlan(plan);
  const command = options.command ?? pointCommand();
  refuseOther(checked, out);
  const points = await pointsOf(checked);
  prepare(checked, points, out);
  if (options.known !== undefined) await takeOver(options.known, points, out);

  const board = new Board(points.map(({ id }) => id));
  const rows = new Map(readPointRows(points, out).map((row) => [row.id, row]));
  const gathering = new Gathering(checked.name, points, rows, out);
  for (const id of rows.keys()) board.change(id, 'done', { known: true });
  board.onChange((id, { status }) => status === 'done' && gathering.add(id));
  gathering.write();
  const shown = showBoard(board, { table: options.table === true });
  try {
    if (executor === 'slurm') {
      const { partition, time, memory, gpus, cpus, parallel, extra, retries = 2, poll } = options;
      const resources = { partition, time, memory, gpus, cpus, parallel, extra };
      const name = `calm-${checked.name}`;
      // With nothing missing, Slurm need not even be there.
      if (board.with('waiting').length > 0) {
        await runOnSlurm(out, board, { ...resources, name, command, retries, signal, ...(poll && { poll }) });
      }
    } else {
      const { parallel = 1, retries = 0, poll } = options;
      const memory = options.memory === undefined ? 0.9 * os.totalmem() : options.memory * 2 ** 30;
      const byId = new Map(points.map((point) => [point.id, point]));
      const expected = (id: string) => estimator([...rows.values()])(byId.get(id)!).memory_mib * 2 ** 20;
      await runLocally(out, board, {
        parallel,
        memory,
        retries,
        command,
        expected,
        signal,
        ...(poll && { tick: poll }),
      });
    }
  } finally {
    shown.stop();
    gathering.write();
  }
  return {
    out,
    summary: gathering.summary(),
    failed: board.with('failed').map((id) => ({ id, reason: board.get(id).note ?? 'it did not say why' })),
    stopped: signal?.aborted === true && board.with('done', 'failed').length < points.length,
    seconds: (performance.now() - started) / 1000,
    point_seconds: [...board.states.values()].reduce((sum, { seconds = 0 }) => sum + seconds, 0),
  };
}

/**
 * The points of a plan and what they will cost, by the rows in `out` and of an earlier sweep where there are any alike.
 * @param known as of `sweep`
 * @throws UsageError, CalmError as `sweep`; nothing is written
 */
export async function previewSweep(plan: Plan | CheckedPlan, out?: string, known?: string): Promise<Preview> {
  const points = await pointsOf(checkPlan(plan));
  const rows = [...(out === undefined ? [] : readPointRows(points, out)), ...(known === undefined ? [] : await readPointRowsFile(known))]; // prettier-ignore
  const estimate = estimator(rows);
  const ids = new Set(rows.map(({ id }) => id));
  const shown = points.map((point) => {
    const { id, model, setting, label, varied, seed } = point;
    const done = ids.has(id);
    return { id, model, setting, label, varied, seed, ...estimate(point), done };
  });
  const open = shown.filter(({ done }) => !done);
  return {
    points: shown,
    seconds: open.reduce((sum, { seconds }) => sum + seconds, 0),
    memory_mib: Math.max(0, ...open.map(({ memory_mib }) => memory_mib)),
  };
}

/** Cancels the jobs of the sweep in `out`. @returns how many points were in the queue @throws as `sweep` */
export async function cancelSweep(plan: Plan | CheckedPlan, out: string): Promise<number> {
  refuseOther(checkPlan(plan), out);
  return cancelOnSlurm(out);
}

function pointCommand(): string[] {
  // Beside this file when it is compiled; tests run the sources.
  const places = [
    path.join(__dirname, 'run-point.js'),
    path.join(PACKAGE_ROOT, '.build', 'experiments', 'run-point.js'),
  ];
  const entry = places.find((file) => fs.existsSync(file));
  if (entry === undefined) throw new CalmError('calm is not built yet', { remedy: 'run "npm start" first' });
  return [process.execPath, entry];
}

/** A folder has one plan: a changed one continues it, another would bury it. */
function refuseOther({ name }: CheckedPlan, out: string): void {
  const file = path.join(out, 'plan.json');
  if (!fs.existsSync(file)) return;
  const there = (readJson(file) as { name?: string }).name;
  if (there === name) return;
  throw new UsageError(`${out} holds the sweep ${there}, not ${name}`, { remedy: 'choose another --out' });
}

/** Writes the plan, and each point's file where it is not there. */
function prepare(plan: CheckedPlan, points: readonly Point[], out: string): void {
  writeFile(path.join(out, 'plan.json'), `${toJson(plan, 2)}\n`);
  for (const point of points) {
    const folder = pointFolder(out, point.id);
    const file = path.join(folder, FILES.point);
    const text = `${toJson(point, 2)}\n`;
    if (isDone(folder) || (fs.existsSync(file) && fs.readFileSync(file, 'utf8') === text)) continue;
    makeFolder(folder);
    writeFile(file, text);
  }
}

/** Puts the rows of an earlier sweep where those of its points are missing. */
async function takeOver(file: string, points: readonly Point[], out: string): Promise<void> {
  const open = new Set(points.map(({ id }) => id).filter((id) => !isDone(pointFolder(out, id))));
  for (const row of await readPointRowsFile(file)) {
    if (open.delete(row.id)) writeFile(path.join(pointFolder(out, row.id), FILES.row), `${toJson(row, 2)}\n`);
  }
}

/** Keeps `rows.jsonl` and `summary.json` up to date, and not more often than needed. */
class Gathering {
  private due: NodeJS.Timeout | undefined;

  constructor(
    private readonly plan: string,
    private readonly points: readonly Point[],
    private readonly rows: Map<string, PointRow>,
    private readonly out: string,
  ) {}

  add(id: string): void {
    this.rows.set(id, readJson(path.join(pointFolder(this.out, id), FILES.row)) as PointRow);
    // Where the disk is full, the end says so.
    this.due ??= setTimeout(() => {
      try {
        this.write();
      } catch (error) {
        if (!(error instanceof CalmError)) throw error;
      }
    }, 2000);
  }

  summary(): Summary {
    return summariseRows(this.plan, this.points, this.inOrder());
  }

  write(): void {
    clearTimeout(this.due);
    this.due = undefined;
    const rows = this.inOrder();
    writeFile(path.join(this.out, 'rows.jsonl'), rows.map((row) => `${toJson(row)}\n`).join(''));
    writeFile(path.join(this.out, 'summary.json'), `${toJson(this.summary(), 2)}\n`);
  }

  /** What is known, and what another sweep has done in the meantime. */
  private inOrder(): PointRow[] {
    const missing = this.points.filter(({ id }) => !this.rows.has(id));
    for (const row of readPointRows(missing, this.out)) this.rows.set(row.id, row);
    return this.points.flatMap(({ id }) => this.rows.get(id) ?? []);
  }
}
