import * as fs from 'node:fs';
import * as path from 'node:path';
import * as readline from 'node:readline';
import { CalmError, systemCode } from './errors';

/** Turns a Node file error into one line with cause and remedy. */
export function fileError(error: unknown, file: string, doing: 'read' | 'write'): CalmError {
  if (error instanceof CalmError) return error;
  const code = systemCode(error);
  const known: Record<string, [string, string]> = {
    ENOENT: ['does not exist', doing === 'read' ? 'check the path' : 'make the folder first'],
    EACCES: ['permission denied', `check who may ${doing} it`],
    EPERM: ['permission denied', `check who may ${doing} it`],
    EROFS: ['the file system is read-only', 'choose another place'],
    EISDIR: ['is a folder', 'name a file'],
    ENOTDIR: ['a part of the path is not a folder', 'check the path'],
    EEXIST: ['something else has that name', 'choose another place'],
    ENOSPC: ['no space left on the disk', 'free some space and run again; what was there before is unchanged'],
    EDQUOT: ['the disk quota is used up', 'free some space and run again; what was there before is unchanged'],
    EFBIG: ['the file may not grow that large', 'free some space and run again; what was there before is unchanged'],
  };
  const [cause, remedy] = (code && known[code]) || [error instanceof Error ? error.message : String(error), undefined];
  return new CalmError(`cannot ${doing} ${file}: ${cause}`, { remedy, cause: error });
}

/** Creates a folder and its parents. @throws CalmError */
export function makeFolder(folder: string): void {
  const isFolder = () => fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  try {
    if (isFolder()) return;
    // Not `recursive`: Node 20 then never returns where the system has no such place, as below /proc.
    makeFolder(path.dirname(path.resolve(folder)));
    fs.mkdirSync(folder);
  } catch (error) {
    if (systemCode(error) === 'EEXIST' && isFolder()) return; // another process made it in the meantime
    throw fileError(error, folder, 'write');
  }
}

/**
 * A file that appears whole or not at all: it is written under another name in the same folder, flushed, and renamed
 * on `commit`. `discard` (or a crash) leaves what stood there before. A device or pipe (`/dev/stdout`) is written to
 * directly, for renaming would put a file in its place.
 */
export class AtomicFile {
  private static made = 0;
  private readonly partial: string | undefined;
  private descriptor: number | undefined;

  constructor(readonly file: string) {
    makeFolder(path.dirname(file));
    try {
      const there = fs.statSync(file, { throwIfNoEntry: false });
      if (there && !there.isFile()) {
        this.descriptor = fs.openSync(file, 'w'); // fails here for a folder, before any work is done
      } else {
        const name = `.${path.basename(file)}.${process.pid}.${AtomicFile.made++}.partial`;
        this.partial = path.join(path.dirname(file), name);
        this.descriptor = fs.openSync(this.partial, 'w');
      }
    } catch (error) {
      throw fileError(error, file, 'write');
    }
  }

  write(data: string | Uint8Array): void {
    if (this.descriptor === undefined) throw new CalmError(`${this.file} is already closed`);
    try {
      fs.writeFileSync(this.descriptor, data);
    } catch (error) {
      this.discard();
      throw fileError(error, this.file, 'write');
    }
  }

  commit(): void {
    const descriptor = this.descriptor;
    if (descriptor === undefined) throw new CalmError(`${this.file} is already closed`);
    try {
      if (this.partial) fs.fsyncSync(descriptor);
      this.descriptor = undefined; // closed even when closing reports an error
      fs.closeSync(descriptor);
      if (this.partial) fs.renameSync(this.partial, this.file);
    } catch (error) {
      this.discard();
      throw fileError(error, this.file, 'write');
    }
  }

  discard(): void {
    if (this.descriptor !== undefined) fs.closeSync(this.descriptor);
    this.descriptor = undefined;
    if (this.partial) fs.rmSync(this.partial, { force: true });
  }
}

/** Writes a whole file atomically. @throws CalmError */
export function writeFile(file: string, data: string | Uint8Array): void {
  const out = new AtomicFile(file);
  out.write(data);
  out.commit();
}

/** Non-finite numbers as the strings "NaN", "Infinity", "-Infinity", which JSON lacks. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_key, v: unknown) => (typeof v === 'number' && !Number.isFinite(v) ? String(v) : v),
    indent,
  );
}

/** The mark that some programs put before UTF-8 text. */
const BOM = /^\uFEFF/;

/** Reads a JSON file. @throws CalmError that names the file. */
export function readJson(file: string): unknown {
  let text: string;
  try {
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw fileError(error, file, 'read');
  }
  try {
    return JSON.parse(text.replace(BOM, ''));
  } catch (error) {
    throw new CalmError(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Streams the rows of a JSON-lines file; blank lines are skipped.
 * @throws CalmError that names file and line when a line is not JSON, or when the file has no rows.
 */
export async function* readJsonl(file: string): AsyncGenerator<{ value: unknown; line: number; where: string }> {
  let rows = 0;
  let input: fs.ReadStream | undefined;
  try {
    const handle = await fs.promises.open(file, 'r'); // opened first: createReadStream reports errors only later
    input = handle.createReadStream({ encoding: 'utf8' });
    const lines = readline.createInterface({ input, crlfDelay: Infinity });
    let line = 0;
    for await (const raw of lines) {
      line++;
      const text = line === 1 ? raw.replace(BOM, '') : raw;
      if (text.trim() === '') continue;
      const where = `${file}, line ${line}`;
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch (error) {
        throw new CalmError(`${where} is not JSON: ${(error as Error).message}`, {
          remedy: 'expected one JSON object per line',
          cause: error,
        });
      }
      rows++;
      yield { value, line, where };
    }
  } catch (error) {
    throw fileError(error, file, 'read');
  } finally {
    input?.destroy(); // or the file stays open when the caller stops early
  }
  if (rows === 0) throw new CalmError(`${file} is empty`, { remedy: 'expected one JSON object per line' });
}
