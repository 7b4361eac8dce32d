import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as readline from 'node:readline';
import { CalmError } from '../base/errors';

export interface CommandOptions {
  /** The file that its output is appended to. */
  log: string;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Sees each line of output as it comes. */
  line?: (text: string) => void;
  /** Ends the command after so many seconds. */
  limit?: number;
  watch?: (child: ChildProcess) => void;
}

/** A command that could not be started, failed, or took too long; `output` is all it printed. */
export class CommandFailed extends CalmError {
  override name = 'CommandFailed';

  constructor(
    what: string,
    readonly output: string,
    readonly log: string,
  ) {
    super(what, { remedy: remedyFor(output, log) });
  }
}

/** What to do about a failed command, judged by what it printed. */
export function remedyFor(output: string, log: string): string {
  const see = `(log: ${log})`;
  if (/No space left|ENOSPC|Disk quota exceeded/i.test(output)) return `free some disk space and run this again ${see}`;
  if (
    /name resolution|getaddrinfo|ENOTFOUND|NewConnectionError|Failed to establish|service not known|ConnectTimeout|timed out|ECONNREFUSED|ECONNRESET|ProxyError/.test(
      output,
    )
  ) {
    return `check the network and proxy settings and run this again ${see}`;
  }
  return `see ${log}, then run this again`;
}

/** The line of a command's output that names the cause: its first error, or simply its last line. */
export function causeIn(output: string): string {
  const lines = output.split('\n').map((line) => line.trim());
  return (lines.find((line) => /\berror: /i.test(line)) ?? lines.filter(Boolean).at(-1) ?? 'no output').slice(0, 300);
}

/** Runs a command in its own process group, its output going to a log. @throws CommandFailed */
export async function runCommand(command: string, args: readonly string[], options: CommandOptions): Promise<void> {
  const { log } = options;
  fs.mkdirSync(path.dirname(log), { recursive: true });
  fs.appendFileSync(log, `\n$ ${[command, ...args].join(' ')}\n`);
  const name = [command, args.find((arg) => !arg.startsWith('-')) ?? ''].map((part) => path.basename(part)).join(' ');
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  });
  options.watch?.(child);
  let output = '';
  const take = (line: string) => {
    if (!/^Progress \d+ of \d+$/.test(line)) {
      output += `${line}\n`;
      fs.appendFileSync(log, `${line}\n`);
    }
    options.line?.(line);
  };
  for (const stream of [child.stdout, child.stderr]) readline.createInterface({ input: stream }).on('line', take);
  let late = false;
  const timer =
    options.limit &&
    setTimeout(() => {
      late = true;
      if (child.pid !== undefined) process.kill(process.platform === 'win32' ? child.pid : -child.pid, 'SIGKILL');
    }, options.limit * 1000);
  const code = await new Promise<number | string>((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('close', (exit, signal) => resolve(exit ?? `signal ${signal}`));
  });
  clearTimeout(timer);
  if (late) throw new CommandFailed(`${name} took longer than ${options.limit} s and was ended`, output, log);
  if (typeof code === 'string') throw new CommandFailed(`${name} did not run: ${code}`, output, log);
  if (code !== 0) throw new CommandFailed(`${name} failed: ${causeIn(output)}`, output, log);
}

/** The standard output of a short command, or undefined when it is not there, fails, or takes over 20 s. */
export function ask(command: string, args: readonly string[], env = process.env): string | undefined {
  const { status, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    timeout: 20_000,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return status === 0 ? stdout.trim() : undefined;
}
