import type { ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { clock } from '../base/progress';
import { runCommand, type CommandOptions } from './command';
import { LOGS } from './paths';

/** The set-up's lock (lock.cjs), which is told about every command that runs, so that none outlives its set-up. */
export interface Lock {
  watch(child: ChildProcess): void;
}

/** What a step works with. */
export interface Workshop {
  /** Shows what the step is busy with. */
  report: (note: string) => void;
  /** Runs a command, its output going to the step's log. @throws CommandFailed */
  run: (command: string, args: readonly string[], options?: Omit<CommandOptions, 'log'>) => Promise<void>;
}

/** One part of a working machine. Interrupted anywhere, it finds itself not done and starts over. */
export interface Step {
  name: string;
  /** What `run` is about to do, for people. */
  doing: string;
  /** A short note on what is there already, or undefined when there is work to do. */
  done(): Promise<string | undefined>;
  /** Does the work. @throws CalmError with cause and remedy; Degraded where calm-lab works without it, only worse. */
  run(workshop: Workshop): Promise<string>;
}

/** Something is missing, and calm-lab works without it, only worse. */
export class Degraded extends CalmError {
  override name = 'Degraded';
}

/** The line that says what a step is busy with: rewritten in a terminal, and every ten seconds in a log. */
function liveLine(
  name: string,
  doing: string,
): { report(note: string): void; end(mark: string, text: string): void; elapsed(): string } {
  const since = Date.now();
  const elapsed = () => clock((Date.now() - since) / 1000);
  const terminal = process.stderr.isTTY;
  let note = '';
  const text = () => `  ...  ${name.padEnd(8)} ${doing}, ${elapsed()}${note && `, ${note}`}`;
  const draw = () => {
    const width = (process.stderr.columns || 80) - 1;
    process.stderr.write(terminal ? `\r\x1b[K${text().slice(0, width)}` : `${text()}\n`);
  };
  const first = setTimeout(draw, terminal ? 0 : 1000); // in a log, a quick step needs only its last line
  const timer = setInterval(draw, terminal ? 1000 : 10_000);
  return {
    elapsed,
    report(next) {
      note = next;
      if (terminal) draw();
    },
    end(mark, final) {
      clearTimeout(first);
      clearInterval(timer);
      process.stderr.write(`${terminal ? '\r\x1b[K' : ''}${mark} ${name.padEnd(8)} ${final}\n`);
    },
  };
}

/**
 * Runs the steps that are not done, in order, with progress on stderr. One that degrades is reported and passed over.
 * @throws CalmError from the first step that fails
 */
export async function runSteps(steps: readonly Step[], lock: Lock): Promise<void> {
  for (const step of steps) {
    const note = await step.done();
    if (note !== undefined) {
      process.stderr.write(`  ok   ${step.name.padEnd(8)} ${note}\n`);
      continue;
    }
    const log = path.join(LOGS, `${step.name}.log`);
    let fresh = true;
    const line = liveLine(step.name, step.doing);
    const workshop: Workshop = {
      report: (text) => line.report(text),
      run: (command, args, options = {}) => {
        if (fresh) fs.rmSync(log, { force: true });
        fresh = false;
        return runCommand(command, args, { ...options, log, watch: (child) => lock.watch(child) });
      },
    };
    try {
      line.end('  ok  ', `${await step.run(workshop)}, ${line.elapsed()}`);
    } catch (error) {
      line.end(
        error instanceof Degraded ? '  !!  ' : '  XX  ',
        error instanceof CalmError ? error.line : String(error),
      );
      if (error instanceof Degraded) continue;
      throw error instanceof CalmError ? error : new CalmError(`${step.name}: ${String(error)}`, { cause: error });
    }
  }
}
