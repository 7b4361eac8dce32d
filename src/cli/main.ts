import { Command, CommanderError } from 'commander';
import { CalmError } from '../base/errors';
import { setQuiet } from '../base/progress';
import { codeVersion } from '../base/version';
import { compareRuns } from './compare';
import { doctor } from './doctor';
import { evaluateTasks } from './eval';
import { fetchTasks } from './fetch';
import { fit } from './fit';
import { generate } from './generate';
import { importResults } from './import';
import { metrics } from './metrics';
import { quickstart } from './quickstart';
import { report } from './report';
import { score } from './score';
import { sweepPlan } from './sweep';
import { tokenize } from './tokenize';
import { trainModel } from './train';

/**
 * The `calm` command: words to calls. Verbs import what computes when they run, so that the others start without
 * TensorFlow.
 */
export function program(): Command {
  const calm = new Command('calm')
    .description('Calibrated confidence for aligned language models.')
    .version(codeVersion())
    .option('--debug', 'show where an error arose')
    .option('-q, --quiet', 'show no progress')
    .showSuggestionAfterError()
    .configureHelp({ showGlobalOptions: true })
    .hook('preAction', (command) => setQuiet(command.opts<{ quiet?: boolean }>().quiet === true));
  const verbs = [
    doctor,
    fetchTasks,
    tokenize,
    score,
    generate,
    evaluateTasks,
    trainModel,
    compareRuns,
    importResults,
    metrics,
    fit,
    sweepPlan,
    report,
    quickstart,
  ];
  for (const verb of verbs) verb(calm);
  for (const command of [calm, ...calm.commands]) {
    command.exitOverride().configureOutput({
      outputError: (text, write) =>
        write(
          `${text
            .trim()
            .replace(/^error: /, 'calm: ')
            .replace(/\s*\n\s*/g, ' ')}\n`,
        ),
    });
  }
  return calm;
}

/** Runs the command line. @returns the exit code: 0 done, 1 failed, 2 wrong usage */
export async function run(argv: readonly string[]): Promise<0 | 1 | 2> {
  const calm = program();
  try {
    await calm.parseAsync([...argv], { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2; // commander has said it
    const known = error instanceof CalmError;
    const line = known ? error.line : `unexpected ${String(error)}; run again with --debug and report it`;
    process.stderr.write(`calm: ${line.replace(/\s*\n\s*/g, ' ')}\n`);
    if (calm.opts<{ debug?: boolean }>().debug) console.error(error);
    return known ? error.exitCode : 1;
  }
}

if (require.main === module) {
  // A reader that closes the pipe (`calm … | head`) has all it wants.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
  void run(process.argv.slice(2)).then((code) => {
    process.exitCode = code;
  });
}
