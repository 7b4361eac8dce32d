import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { readJson, toJson, writeFile } from '../base/files';
import { claim } from './claim';

/** Exit code of a process that found another one at its point. */
export const BUSY = 75;

/** The files of a point, in its folder. */
export const FILES = {
  point: 'point.json',
  row: 'row.json',
  claim: 'claim.json',
  failure: 'failure.json',
  log: 'log.txt',
} as const;

/** What a process says of its failure before it ends. */
export interface Failure {
  line: string;
  at: string;
}

export const pointFolder = (out: string, id: string): string => path.join(out, 'points', id);

export const isDone = (folder: string): boolean => fs.existsSync(path.join(folder, FILES.row));

/** What the last process that failed here has said. */
export function failureOf(folder: string): Failure | undefined {
  const file = path.join(folder, FILES.failure);
  return fs.existsSync(file) ? (readJson(file) as Failure) : undefined;
}

/**
 * Does a point, unless it is done or another process is at it: `row.json` appears whole when it is done, `failure.json`
 * when it has failed.
 * @param run computes the row from what `point.json` holds
 * @returns the exit code of its process: 0 done, 1 failed, BUSY
 */
export async function performPoint(
  folder: string,
  run: (point: unknown, folder: string) => Promise<object>,
): Promise<number> {
  const at = (name: keyof typeof FILES) => path.join(folder, FILES[name]);
  try {
    const held = claim(at('claim'));
    if (!held) return BUSY;
    try {
      // Only now: the claim's last holder may have finished it.
      if (!isDone(folder)) writeFile(at('row'), `${toJson(await run(readJson(at('point')), folder), 2)}\n`);
      fs.rmSync(at('failure'), { force: true });
      return 0;
    } catch (error) {
      const line = error instanceof CalmError ? error.line : `unexpected ${String(error)}`;
      if (!(error instanceof CalmError)) console.error(error);
      process.stderr.write(`calm: ${line}\n`);
      writeFile(at('failure'), toJson({ line, at: new Date().toISOString() } satisfies Failure));
      return 1;
    } finally {
      held.release();
    }
  } catch (error) {
    // The folder itself cannot be read or written, so that this is all that can be said.
    process.stderr.write(`calm: ${error instanceof CalmError ? error.line : String(error)}\n`);
    return 1;
  }
}
