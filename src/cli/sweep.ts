import { InvalidArgumentError, type Command } from 'commander';
import { CalmError, someOf, UsageError } from '../base/errors';
import { clock } from '../base/progress';
import type { Aggregate, Preview, Summary, SweepOptions } from '../experiments';
import { toMarkdown } from '../report/table';
import { finish, integer, number, oneOf } from './options';

interface Options extends Pick<
  SweepOptions,
  'known' | 'executor' | 'parallel' | 'memory' | 'retries' | 'partition' | 'time'
> {
  out?: string;
  data?: string;
  gpus?: number;
  cpus?: number;
  sbatch: string[];
  cancel?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

export function sweepPlan(calm: Command): void {
  calm
    .command('sweep')
    .description("Run an experiment's plan: methods, grids and seeds, here or on a cluster; again to go on")
    .argument('<plan>', 'a .json file, see below')
    .option('--out <folder>', 'where plan.json, points/, rows.jsonl and summary.json go')
    .option('--data <folder>', "that the plan's paths start from, instead of its own")
    .option('--known <file>', 'rows.jsonl of an earlier sweep, whose points are not run again')
    .option('--executor <where>', 'local or slurm', oneOf(['local', 'slurm']), 'local')
    .option('--parallel <n>', 'points at once: processes (1 by default), or tasks of the array', integer(1))
    .option('--memory <GiB>', 'for all processes together, or for each point on Slurm', number(0.1))
    .option('--retries <n>', 'times a failed point is tried again: by default 0, on Slurm 2', integer(0))
    .option('--partition <name>', "Slurm's partition")
    .option('--time <limit>', 'for each point, as Slurm reads it, such as 2:00:00')
    .option('--gpus <n>', 'of each point', integer(1))
    .option('--cpus <n>', 'of each point', integer(1))
    .option(
      '--sbatch <option>',
      'another option of sbatch, such as --sbatch=--account=lab; may be given again',
      more,
      [],
    )
    .option('--cancel', 'cancel the jobs of this sweep')
    .option('--dry-run', 'print the points and the estimated cost, and do nothing')
    .option('--json', 'print one JSON object')
    .addHelpText('after', HELP)
    .action(
      async (file: string, { out, data, dryRun, cancel, json, sbatch, ...options }: Options, command: Command) => {
        const { readPlan } = await import('../experiments/plan.js');
        const { cancelSweep, previewSweep, sweep } = await import('../experiments/index.js');
        refuseStray(options, sbatch, cancel);
        const plan = readPlan(file, data);
        if (dryRun) {
          const preview = await previewSweep(plan, out, options.known);
          return finish({ json }, preview, describePreview(preview, options.parallel));
        }
        if (out === undefined) throw new UsageError('the sweep needs a folder', { remedy: 'name one with --out' });
        if (cancel) {
          const cancelled = await cancelSweep(plan, out);
          return finish({ json }, { out, cancelled }, `${cancelled} points were in the queue and are cancelled`);
        }
        const stop = new AbortController();
        const signals = ['SIGINT', 'SIGTERM'] as const;
        const onSignal = () => stop.abort();
        for (const signal of signals) process.once(signal, onSignal); // the second Ctrl-C ends it at once
        const { quiet } = command.optsWithGlobals<{ quiet?: boolean }>();
        const table = process.stderr.isTTY && !quiet;
        try {
          const swept = await sweep(plan, { ...options, out, extra: sbatch, signal: stop.signal, table });
          const { summary, failed, stopped } = swept;
          finish({ json }, swept, describeSummary(summary, out));
          if (stopped) {
            const jobs = options.executor === 'slurm' ? ' (jobs go on; --cancel ends them)' : '';
            throw new CalmError(`stopped with ${summary.done} of ${summary.points} points done${jobs}`, {
              remedy: 'run the same command to go on',
            });
          }
          if (failed.length > 0) {
            const which = someOf(failed.map(({ id, reason }) => `${id} (${reason})`));
            throw new CalmError(`${failed.length} of ${summary.points} points failed: ${which}`, {
              remedy: `see their log.txt in ${out}/points; run the same command to try them again`,
            });
          }
        } finally {
          for (const signal of signals) process.removeListener(signal, onSignal);
        }
      },
    );
}

const HELP = `
A plan, for example (paths start from its folder; datasets/plans has those of the paper's tables):
  {
    "name": "lower-rates",
    "model": "smollm2-135m-instruct",
    "settings": { "id": { "train": "train.jsonl", "validation": "validation.jsonl", "test": "test.jsonl", "scoring": "letter" } },
    "methods": ["baseline", "ts", { "method": "calm", "options": { "epochs": 2 }, "grid": { "lowerRate": [0.01, 0.001] } }, "calm-scalar"],
    "seeds": [0, 1, 2]
  }
Methods: baseline, ts (a temperature fitted on the validation questions), and those of "calm train", whose --help has
their options. Of each grid the point with the lowest conf-ECE on validation is chosen among those with an accuracy above
80 % of the base model's; where there is none, the most accurate. A method may also have "settings" it is for and "seeds"
of its own.`;

function more(text: string, all: string[]): string[] {
  if (/^-{1,2}[a-zA-Z][^\n]*$/.test(text)) return [...all, text];
  throw new InvalidArgumentError('Expected an option of sbatch, such as --account=lab.');
}

/** Options of a cluster say nothing to this machine. */
function refuseStray({ executor, ...options }: Partial<Options>, sbatch: readonly string[], cancel?: boolean): void {
  if (executor === 'slurm') return;
  const given = (['partition', 'time', 'gpus', 'cpus'] as const).filter((name) => options[name] !== undefined);
  const stray = [...given, ...(sbatch.length > 0 ? ['sbatch'] : []), ...(cancel ? ['cancel'] : [])];
  if (stray.length > 0)
    throw new UsageError(`--${stray[0]} is for Slurm`, { remedy: 'add --executor slurm, or leave it out' });
}

const NONE = { mean: null, sd: null };
const memory = (mib: number) => `${(mib / 1024).toFixed(1)} GiB`;

function describePreview({ points, seconds, memory_mib }: Preview, parallel = 1): string {
  const open = points.filter(({ done }) => !done);
  const guessed = open.filter(({ measured }) => !measured).length;
  const how =
    guessed === 0
      ? 'as measured on others like them'
      : `${guessed} of them reckoned from parameters and tokens, and perhaps wrong by a few times`;
  return [
    ...points.map(
      (point) =>
        `${point.id}  ${point.done ? 'done' : `${point.measured ? '' : 'about '}${clock(point.seconds)}, ${memory(point.memory_mib)}`}`,
    ),
    `${points.length} points, ${points.length - open.length} done; the others take ${clock(seconds)} one after another` +
      `${parallel > 1 ? `, ${clock(seconds / parallel)} by ${parallel}` : ''}, up to ${memory(memory_mib)} each${open.length > 0 ? ` (${how})` : ''}`,
  ].join('\n');
}

/** One row a method: its chosen point on test (mean ± standard deviation over seeds), and what its points cost. */
function describeSummary({ chosen, costs, points, done, code_versions }: Summary, out: string): string {
  const fixed = (value: number | null, digits: number) => (value === null ? '?' : value.toFixed(digits));
  const value = ({ mean, sd }: Pick<Aggregate, 'mean' | 'sd'> = NONE, scale: number, digits: number) =>
    `${fixed(mean && scale * mean, digits)}${sd === null ? '' : ` ± ${fixed(scale * sd, digits)}`}`;
  const table = chosen.map(({ model, setting, label, status, chosen: one }) => {
    const cost = costs.find((line) => line.model === one?.model && line.setting === setting && line.label === label);
    const varied = Object.entries(one?.varied ?? {}).map(([name, v]) => `${name}=${String(v)}`);
    return {
      Model: model,
      Setting: setting,
      Method: label,
      'Accuracy (%)': one && value(one.test['accuracy'], 100, 1),
      'conf-ECE': one && value(one.test['conf_ece'], 1, 4),
      Seeds: one && one.seeds.length,
      Chosen: status === 'selected' ? varied.join(', ') : [STATUS[status], ...varied].join(', '),
      'Time a point': cost ? clock(cost.wall_seconds.mean) : null,
      Memory: cost ? memory(cost.peak_memory_mib) : null,
      Tokens: cost ? cost.tokens_trained : null,
    };
  });
  return [
    toMarkdown(table),
    '',
    ...(code_versions.length > 1 ? [`points are of different versions of the code: ${code_versions.join(', ')}`] : []),
    `${done} of ${points} points done: ${out}/rows.jsonl, summary.json`,
  ].join('\n');
}

const STATUS = {
  'none-accurate-enough': 'none is accurate enough, so the most accurate',
  'no-base': 'the base model is not measured yet',
  incomplete: 'no configuration has all its seeds yet',
};
