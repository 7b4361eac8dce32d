import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { CalmError, UsageError } from '../base/errors';
import { toJson, writeFile } from '../base/files';
import { pick } from '../base/pick';
import { cacheFolder, PACKAGE_ROOT } from '../base/presets';
import { paperTable } from './paper';
import { readPlan, type CheckedPlan } from './plan';
import { readPointRowsFile, summariseRows, type Chosen, type Summary } from './summary';
import { sweep } from './sweep';
import { makeToy } from './toy';
import type { PointRow } from './types';

/**
 * How large an experiment is: `tiny` trains a toy (`makeToy`) in minutes, `cpu` is SmolLM2-135M-Instruct on two cores in
 * hours, `paper` the paper's four models under its exact protocol on A100s in weeks.
 */
export type Scale = 'tiny' | 'cpu' | 'paper';
const SCALES: Record<Scale, true> = { tiny: true, cpu: true, paper: true };

export interface StudyOptions {
  /** Of all training; by default 0. */
  seed?: number | undefined;
  /** The folder that the plan's data and models lie in; `tiny` makes its own. */
  data?: string | undefined;
  /** Rows of other studies, whose points are not run again. */
  known?: readonly PointRow[] | undefined;
}

/** An experiment of the paper's four-option questions, done. */
export interface Study {
  plan: CheckedPlan;
  rows: PointRow[];
  summary: Summary;
}

/**
 * The plan behind Tables 1, 2, 5 to 8 and 10 and Figures 1 to 4: `datasets/plans/mcqa-<scale>.json`. At `tiny` the model
 * is made first, where it is not there.
 * @throws UsageError for an unknown scale
 */
export async function mcqaPlan(scale: Scale, { seed = 0, data }: StudyOptions = {}): Promise<CheckedPlan> {
  pick('scale', scale, SCALES);
  const file = path.join(PACKAGE_ROOT, 'datasets', 'plans', `mcqa-${scale}.json`);
  const plan = readPlan(file, scale === 'tiny' ? await makeToy({ seed }) : (data ?? '.'));
  return { ...plan, seeds: [seed] };
}

/**
 * Does what is missing of a plan and gives its rows. What others have done already is in `datasets/results`: of the plan
 * `mcqa-cpu` with seed 0 that is every row, and is taken as it stands where `data` is not at hand.
 * @param options.data the folder that the plan was read from
 * @throws CalmError when a point failed; UsageError, CalmError as `sweep`
 */
export async function runStudy(plan: CheckedPlan, { data, known: others = [] }: StudyOptions = {}): Promise<Study> {
  const results = path.join(PACKAGE_ROOT, 'datasets', 'results', `${plan.name}.jsonl`);
  const known = fs.existsSync(results) ? await readPointRowsFile(results) : [];
  const seeds = new Set([plan, ...plan.methods].flatMap(({ seeds = [] }) => seeds));
  // Points cannot be told without their data, whose hash is in their ids.
  if (data === undefined && known.length > 0 && [...seeds].every((seed) => known.some((row) => row.seed === seed))) {
    return { plan, rows: known, summary: summariseRows(plan.name, known, known) };
  }
  const out = path.join(cacheFolder(), 'sweeps', `${plan.name}-${[...seeds].join('-')}`);
  const file = path.join(out, 'known.jsonl');
  const all = [...known, ...others];
  if (all.length > 0) writeFile(file, all.map((row) => `${toJson(row)}\n`).join(''));
  const { failed, stopped } = await sweep(plan, {
    out,
    ...(all.length > 0 && { known: file }),
    // Small models leave most of the machine idle.
    parallel: plan.name.endsWith('-tiny') ? Math.min(4, os.availableParallelism()) : 1,
  });
  if (failed.length > 0) {
    const [{ id, reason }] = failed as [(typeof failed)[0]];
    throw new CalmError(`${failed.length} points failed; ${id}: ${reason}`, { remedy: 'run the cell again to go on' });
  }
  if (stopped) throw new CalmError('the sweep was stopped', { remedy: 'run the cell again to go on' });
  const rows = await readPointRowsFile(path.join(out, 'rows.jsonl'));
  return { plan, rows, summary: summariseRows(plan.name, rows, rows) };
}

/**
 * CALM as it was chosen for one model and setting, again with other seeds, and with a scalar head under the same options
 * (Tables 11 and 12).
 */
export function robustnessPlan(plan: CheckedPlan, { setting, label, chosen }: Chosen, seeds: number[]): CheckedPlan {
  if (chosen === null) throw new UsageError(`no point of ${label} was chosen in ${setting}`);
  const entry = plan.methods.find(
    ({ name, method, settings }) =>
      (name ?? method) === label && (settings === undefined || settings.includes(setting)),
  )!;
  const model = plan.model.filter((name) => path.basename(name).replace(/\.gguf$/i, '') === chosen.model);
  const grid = Object.fromEntries(Object.entries(chosen.varied).map(([name, value]) => [name, [value]]));
  const same = { options: entry.options, grid, seeds };
  return {
    ...plan,
    name: plan.name.replace(/^mcqa/, 'robustness'),
    model,
    settings: { [setting]: plan.settings[setting]! },
    methods: [
      { method: 'baseline', options: {}, grid: {} },
      { method: 'calm', ...same },
      { method: 'calm-scalar', ...same },
    ],
  };
}

/** One line of what a plan comes to. */
export interface PlanLine {
  [name: string]: string | number | null;
}

/**
 * What a plan comes to, a line for each method and setting: values tried and points.
 * @param options.a100 adds the hours of one A100 that these points take by Table 10 of the paper, in proportion to epochs;
 *   null where it says nothing
 */
export function planTable(plan: CheckedPlan, { a100 = false }: { a100?: boolean } = {}): PlanLine[] {
  const minutes = new Map(
    paperTable('T10').rows.map(({ method, time, epochs }) => {
      const { value, unit } = time as unknown as { value: number; unit: string };
      return [method, { minutes: value * (unit === 'hr' ? 60 : 1), epochs: epochs as number | null }] as const;
    }),
  );
  return Object.keys(plan.settings).flatMap((setting) =>
    plan.methods
      .filter(({ settings }) => settings === undefined || settings.includes(setting))
      .map(({ name, method, options, grid, seeds = plan.seeds }) => {
        const tried = Object.values(grid).reduce((product, values) => product * values.length, 1);
        const untrained = method === 'baseline' || method === 'ts';
        const points = tried * plan.model.length * (untrained ? 1 : seeds.length);
        const cost = minutes.get(method.replace('calm-scalar', 'calm'));
        const epochs = typeof options['epochs'] === 'number' ? options['epochs'] : cost?.epochs;
        const scale = cost?.epochs && epochs ? epochs / cost.epochs : 1;
        return {
          setting,
          method: name ?? method,
          grid: Object.entries(grid).map(([key, values]) => `${key} ${values.map(String).join(', ')}`).join('; ') || '—', // prettier-ignore
          models: plan.model.length,
          seeds: untrained ? 1 : seeds.length,
          points,
          ...(a100 && { 'A100 hours': cost ? (points * cost.minutes * scale) / 60 : null }),
        };
      }),
  );
}
