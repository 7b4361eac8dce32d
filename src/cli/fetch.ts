import type { Command } from 'commander';
import { UsageError } from '../base/errors';
import { unknownName } from '../base/pick';
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
    .argument('<names...>', 'tasks as calm eval names them, such as arc_easy')
    .option('--data <folder>', "where <task>/<split>.jsonl go; by default data in the project's cache")
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nHF_ENDPOINT names a mirror of the hub, HF_TOKEN is sent to it where it is set.')
    .action(async (names: string[], { data, json }: Options, command: Command) => {
      const { fetchTask, taskNames } = await import('../index.js');
      const known = taskNames().filter((name) => name !== 'starter');
      for (const name of names) {
        if (name === 'starter')
          throw new UsageError('the task starter comes with calm-lab', { remedy: 'leave it out' });
        if (!known.includes(name)) throw unknownName('benchmark', name, known); // before any is fetched
      }
      const { quiet } = command.optsWithGlobals<{ quiet?: boolean }>();
      const notice = (line: string) => void (quiet || process.stderr.write(`${line}\n`));
      const tasks: FetchedTask[] = [];
      for (const name of names) tasks.push(await fetchTask(name, { notice, ...(data !== undefined && { data }) }));
      finish({ json }, { tasks }, words(tasks));
    });
}

function words(tasks: readonly FetchedTask[]): string {
  const lines = tasks.flatMap(({ task, splits }) =>
    splits.map(({ split, file, rows, status }) => {
      const count = rows === undefined ? '' : `${rows} rows, `;
      return `${task} ${split}: ${count}${file}${status === 'there' ? ' (was there already)' : ''}`;
    }),
  );
  const names = tasks.map(({ task }) => task).join(',');
  return [...lines, '', `calm eval --tasks ${names} --data ${tasks[0]?.data} …`].join('\n');
}
