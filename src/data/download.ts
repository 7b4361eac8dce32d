import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { fileError, makeFolder } from '../base/files';
import { exchange, Passing, withRetries, type Answer, type Hub } from './hub';

export interface Download {
  bytes: number;
  /** In hexadecimal. */
  sha256: string;
  /** Whether the server told the same checksum. */
  verified: boolean;
}

/**
 * Downloads a file to `partial`, going on where an earlier attempt or run was cut. A failure leaves what has arrived
 * for the next run, unless it is wrong.
 * @param report is told the bytes that are there, and the bytes of the whole file where the server says so
 * @throws CalmError in one line: not to be had, not writable, cut more often than is tried, or with a wrong checksum
 */
export async function download(
  hub: Hub,
  address: string,
  partial: string,
  report: (done: number, total?: number) => void = () => undefined,
): Promise<Download> {
  makeFolder(path.dirname(partial));
  // What an earlier run left may be of another version of the file, and only a checksum can prove that it is not.
  let inherited = sizeOf(partial) > 0;
  const startAgain = (reason: string): Passing => {
    remove(partial);
    inherited = false;
    return new Passing(reason, 0);
  };
  return withRetries(hub, async () => {
    const asked = sizeOf(partial);
    const sha256 = await exchange(hub, address, asked, async (answer) => {
      const { status } = answer.response;
      if (status === 200)
        inherited = false; // all of it comes, whatever was asked for
      else if (inherited && answer.told.sha256 === undefined) throw startAgain(`${address} has no checksum`);
      const { start, size } = extentOf(answer, asked);
      if (status === 416 ? size !== asked : start !== (status === 200 ? 0 : asked))
        throw startAgain(`${address} does not go on from byte ${asked}`);
      if (status !== 416) await receive(answer, partial, start, (done) => report(done, size));
      const bytes = sizeOf(partial);
      if (size !== undefined && bytes > size) throw startAgain(`${address} sends ${bytes} bytes, not ${size}`);
      if (size !== undefined && bytes < size) throw new Passing(`${address} ended at ${bytes} of ${size} bytes`);
      return answer.told.sha256;
    });
    const found = await sha256Of(partial);
    const there = { bytes: sizeOf(partial), sha256: found, verified: sha256 !== undefined };
    if (sha256 === undefined || found === sha256) return there;
    const message = `${address} arrived with SHA-256 ${found}, not ${sha256}`;
    if (inherited) throw startAgain(message);
    remove(partial);
    throw new CalmError(message, { remedy: 'it was removed, run again' });
  });
}

/** The first byte of an answer, and the size of the whole file where it is known. */
function extentOf({ response, told }: Answer, asked: number): { start: number; size: number | undefined } {
  const { headers, status } = response;
  const [, start, whole] = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(headers.get('content-range') ?? '') ?? [];
  const length = headers.get('content-length');
  const known = status === 200 ? (length ?? undefined) : whole;
  const size = told.size ?? (known === undefined || known === '*' ? undefined : Number(known));
  return { start: status === 200 ? 0 : start === undefined ? asked : Number(start), size };
}

/** Puts an answer's bytes behind those that are there. */
async function receive(
  { response, heard }: Answer,
  partial: string,
  start: number,
  report: (done: number) => void,
): Promise<void> {
  const out = writing(partial, () => fs.openSync(partial, start > 0 ? 'a' : 'w'));
  let done = start;
  try {
    for await (const chunk of response.body ?? []) {
      heard();
      const bytes = chunk as Uint8Array;
      writing(partial, () => fs.writeFileSync(out, bytes));
      done += bytes.length;
      report(done);
    }
  } finally {
    fs.closeSync(out);
  }
}

function writing<T>(file: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw fileError(error, file, 'write');
  }
}

const remove = (file: string) => writing(file, () => fs.rmSync(file, { force: true }));
const sizeOf = (file: string) => fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0;

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of fs.createReadStream(file)) hash.update(chunk as Buffer);
  } catch (error) {
    throw fileError(error, file, 'read');
  }
  return hash.digest('hex');
}
