import * as fs from 'node:fs';
import { fileError } from '../base/files';
import { CalmError } from '../base/errors';

/** Node reads less than 2 GiB at a time. */
const LONGEST_READ = 2 ** 30;

/**
 * A file open for reading at any position. Checkpoint readers make every buffer whose size comes from the file here,
 * so no hostile length allocates more than the file holds. Positions are exact to 2^53.
 */
export class ByteSource {
  readonly size: number;
  private descriptor: number | undefined;

  /** @throws CalmError when `path` is not a regular file that may be read. */
  constructor(readonly path: string) {
    try {
      // Asked before opening: opening a named pipe would wait for its writer.
      const isFile = fs.statSync(path).isFile();
      if (!isFile) throw new CalmError(`cannot read ${path}: it is not a file`, { remedy: 'name a file' });
      this.descriptor = fs.openSync(path, 'r');
      this.size = fs.fstatSync(this.descriptor).size;
    } catch (error) {
      this.close();
      throw fileError(error, path, 'read');
    }
  }

  /** A fresh buffer of its own with `length` bytes from `offset` on. @throws CalmError when the file has fewer. */
  read(offset: number, length: number): Uint8Array {
    if (this.descriptor === undefined) throw new CalmError(`${this.path} is already closed`);
    if (offset + length > this.size) throw truncated(this.path, offset + length, this.size);
    try {
      const bytes = new Uint8Array(length);
      for (let done = 0; done < length;) {
        const wanted = Math.min(length - done, LONGEST_READ);
        const got = fs.readSync(this.descriptor, bytes, done, wanted, offset + done);
        if (got === 0) throw truncated(this.path, offset + length, offset + done);
        done += got;
      }
      return bytes;
    } catch (error) {
      if (error instanceof RangeError) {
        throw new CalmError(`cannot read ${this.path}: no memory for ${length} bytes in one piece`, { cause: error });
      }
      throw fileError(error, this.path, 'read');
    }
  }

  close(): void {
    if (this.descriptor !== undefined) fs.closeSync(this.descriptor);
    this.descriptor = undefined;
  }
}

/** The error for a file that ends too early; `where` says what was being read. */
export function truncated(path: string, needs: number, has: number, where = ''): CalmError {
  return new CalmError(`${path} is truncated${where && ` in ${where}`}: needs ${needs} bytes, has ${has}`, {
    remedy: 'fetch it again',
  });
}

/** A name out of a file, fit for an error line: quoted, escaped, not longer than about 80 characters. */
export function quoted(name: string): string {
  const short = name.length > 80 ? `${name.slice(0, 80)}…` : name;
  return JSON.stringify(short).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Fails when two of `spans` share a byte. Zero-length spans touch nothing. */
export function refuseOverlaps(
  path: string,
  spans: Iterable<{ name: string; offset: number; byteLength: number }>,
): void {
  const sorted = [...spans].filter((s) => s.byteLength > 0).sort((a, b) => a.offset - b.offset);
  for (let i = 1; i < sorted.length; i++) {
    const before = sorted[i - 1] as (typeof sorted)[number];
    const here = sorted[i] as (typeof sorted)[number];
    if (here.offset < before.offset + before.byteLength) {
      throw new CalmError(`${path}: tensors ${quoted(before.name)} and ${quoted(here.name)} overlap`, {
        remedy: 'the file is damaged: fetch it again',
      });
    }
  }
}

/** The number of elements of `shape`, or undefined beyond 2^53. */
export function elementsOf(shape: readonly number[]): number | undefined {
  let product = 1;
  for (const dim of shape) {
    product *= dim;
    if (!Number.isSafeInteger(product)) return undefined;
  }
  return product;
}
