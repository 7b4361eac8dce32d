import type { Command } from 'commander';
import type { FetchedTask } from '../data';
import { finish } from './options';

interface Options {
  data?: string;
  json?: boolean;
}

export function fetchTasks(calm: Command): void {
  calm
    .command('fetch')
    .description("Download benchmarks from Hugging Face's hub, to ask their questions with calm eval")
    .argument('<names...>', 'tasks as calm eval names them, such as arc_easy; mcqa for those it is drawn from')
    .option('--data <folder>', "where <task>/<split>.jsonl go; by default data in the project's cache")
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nHF_ENDPOINT names a mirror of the hub, HF_TOKEN is sent to it where it is set.')
    .action(async (names: string[], { data, json }: Options, command: Command) => {
      const { benchmarksOf, fetchTask } = await import('../index.js');
      const benchmarks = benchmarksOf(names); // those that are unknown are told before any is fetched
      const { quiet } = command.optsWithGlobals<{ quiet?: boolean }>();
      const notice = (line: string) => void (quiet || process.stderr.write(`${line}\n`));
      const tasks: FetchedTask[] = [];
      for (const name of benchmarks) tasks.push(await fetchTask(name, { notice, ...(data !== undefined && { data }) }));
      finish({ json }, { tasks }, words(names, tasks));
    });
}

function words(names: readonly string[], tasks: readonly FetchedTask[]): string {
  const lines = tasks.flatMap(({ task, splits }) =>
    splits.map(({ split, file, rows, status }) => {
      const count = rows === undefined ? '' : `${rows} rows, `;
      return `${task} ${split}: ${count}${file}${status === 'there' ? ' (was there already)' : ''}`;
    }),
  );
  return [...lines, '', `calm eval --tasks ${names.join(',')} --data ${tasks[0]?.data} …`].join('\n');
}
