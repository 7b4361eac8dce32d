import type { Command } from 'commander';
import { UsageError } from '../base/errors';
import { compareRows, type Comparison, type Difference } from '../evaluate/compare';
import { readRows } from '../evaluate/results';
import { finish, integer, MOST_BINS } from './options';
import { naming } from './rows';

interface Options {
  bins: number;
  resamples: number;
  flips: number;
  seed: number;
  json?: boolean;
}

export function compareRuns(calm: Command): void {
  calm
    .command('compare')
    .description('Compare two runs of "calm eval" item by item')
    .argument('<run-a>', 'folder that "calm eval --out" wrote')
    .argument('<run-b>', 'another, of the same tasks')
    .option('--flips <n>', 'items to list that one answers rightly and the other wrongly', integer(0), 10)
    .option('--bins <n>', 'bins of the ECE', integer(1, MOST_BINS), 10)
    .option('--resamples <n>', 'bootstrap resamples behind the intervals', integer(0, 1_000_000), 1000)
    .option('--seed <s>', 'seed of the resampling', integer(0), 0)
    .option('--json', 'print one JSON object')
    .action(async (a: string, b: string, options: Options) => {
      const [first, second] = [await byTask(a), await byTask(b)];
      const shared = [...first.keys()].filter((key) => second.has(key));
      if (shared.length === 0) {
        throw new UsageError(`${a} and ${b} have no task with the same scoring in common`, {
          remedy: `there are ${[...new Set([...first.keys(), ...second.keys()])].join('; ')}`,
        });
      }
      const comparisons = shared.map((key) => ({
        task: key,
        ...naming(key, () => compareRows(first.get(key)!, second.get(key)!, options)),
      }));
      finish(options, { a, b, comparisons }, comparisons.map((one) => describe(one, options.flips)).join('\n\n'));
    });
}

type Rows = Awaited<ReturnType<typeof readRows>>;

/** The rows of a run by task and scoring. */
async function byTask(run: string): Promise<Map<string, Rows>> {
  const tasks = new Map<string, Rows>();
  for (const row of await readRows(run)) {
    if (row.scoring === 'rolling' || row.scoring === 'generate') continue; // no options to be compared
    const key = `${row.task} by ${row.scoring}`;
    const rows = tasks.get(key) ?? [];
    if (rows[0] && rows[0].calibration !== row.calibration) {
      throw new UsageError(`${run} has ${key} both ${rows[0].calibration} and ${row.calibration}`, {
        remedy: 'compare runs with one calibration each',
      });
    }
    rows.push(row);
    tasks.set(key, rows);
  }
  return tasks;
}

function describe(
  { task, n, only_a, only_b, mcnemar, flips, ...metrics }: Comparison & { task: string },
  most: number,
) {
  type Shown = [string, Difference, (x: number) => string];
  const percent = (x: number) => (100 * x).toFixed(1);
  const rows: Shown[] = [
    ['accuracy, %', metrics.accuracy, percent],
    ...(metrics.acc_norm ? [['acc_norm, %', metrics.acc_norm, percent] as Shown] : []),
    ['conf-ECE', metrics.conf_ece, (x) => x.toFixed(4)],
    ['Brier', metrics.brier, (x) => x.toFixed(4)],
    ['NLL', metrics.nll, (x) => x.toFixed(4)],
  ];
  const table = rows.map(([name, { a, b, difference, interval }, show]) => {
    const signed = (x: number) => (x < 0 ? show(x) : `+${show(x)}`);
    const between = interval ? ` [${signed(interval[0])}, ${signed(interval[1])}]` : '';
    return `| ${name} | ${show(a)} | ${show(b)} | ${signed(difference)}${between} |`;
  });
  const { right_only_in_a, right_only_in_b, p_value } = mcnemar;
  const apart = only_a + only_b > 0 ? `; ${only_a} items only in the first, ${only_b} only in the second` : '';
  const listed = flips.slice(0, most).map(({ doc_id, label, a, b, change }) => {
    return `  ${change}: ${doc_id} (right is ${label}; ${a} became ${b})`;
  });
  return [
    `${task}, ${n} items in both${apart}`,
    '',
    '| | first | second | difference, 95 % |',
    '| --- | ---: | ---: | --- |',
    ...table,
    '',
    `right only in the first ${right_only_in_a}, only in the second ${right_only_in_b}; McNemar p = ${p_value.toPrecision(3)}`,
    ...listed,
    ...(flips.length > most ? [`  and ${flips.length - most} more, all with --json`] : []),
  ].join('\n');
}
