import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { AtomicFile, fileError, makeFolder, readJson, readJsonl, toJson, writeFile } from '../../src/base/files';
import { runChild } from '../child';

let folder: string;
let file: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-files-'));
  file = path.join(folder, 'out.txt');
});
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

const content = () => fs.readFileSync(file, 'utf8');

describe('AtomicFile', () => {
  it('shows nothing before commit, all of it after, and makes the folders on the way', () => {
    file = path.join(folder, 'a', 'b', 'out.txt');
    const out = new AtomicFile(file);
    out.write('one ');
    out.write(Buffer.from('two'));
    expect(fs.existsSync(file)).toBe(false);
    out.commit();
    expect(content()).toBe('one two');
    expect(fs.readdirSync(path.dirname(file))).toEqual(['out.txt']);
  });

  it('keeps what stood there until commit, and for ever after discard', () => {
    writeFile(file, 'old');
    const out = new AtomicFile(file);
    out.write('new');
    expect(content()).toBe('old');
    out.discard();
    out.discard(); // as often as one likes, also after commit
    expect([content(), fs.readdirSync(folder)]).toEqual(['old', ['out.txt']]);
    expect(() => out.write('late')).toThrow('already closed');
    expect(() => out.commit()).toThrow('already closed');
  });

  it('discard after commit leaves the file', () => {
    const out = new AtomicFile(file);
    out.write('new');
    out.commit();
    out.discard();
    expect(content()).toBe('new');
  });

  it('two at once do not mix: the last to commit wins', () => {
    const [first, second] = [new AtomicFile(file), new AtomicFile(file)];
    first.write('first');
    second.write('2');
    first.commit();
    second.commit();
    expect([content(), fs.readdirSync(folder)]).toEqual(['2', ['out.txt']]);
  });

  // A real limit on the file's size (8 or 4 KiB); the signal that comes with it is ignored, as in a batch system.
  it.skipIf(process.platform === 'win32')('a write that fails leaves the old content and no partial file', () => {
    writeFile(file, 'old');
    const { status, stderr } = runChild(
      `const { AtomicFile } = require('./src/base/files.ts');
       const out = new AtomicFile(process.env.OUT);
       try { for (let i = 0; i < 100; i++) out.write('x'.repeat(1000)); } catch (error) { console.error(error.line); }`,
      { env: { OUT: file }, shell: "trap '' XFSZ; ulimit -f 8" },
    );
    expect([status, stderr]).toEqual([
      0,
      `cannot write ${file}: the file may not grow that large; ` +
        'free some space and run again; what was there before is unchanged\n',
    ]);
    expect([content(), fs.readdirSync(folder)]).toEqual(['old', ['out.txt']]);
  });

  it('refuses a folder at once, not when everything is computed', () => {
    expect(() => new AtomicFile(folder)).toThrow(`cannot write ${folder}: is a folder`);
  });

  // Renaming over /dev/null would replace the device for the whole machine, if root does it.
  it.skipIf(process.platform === 'win32')('writes to a device and leaves it what it is', () => {
    const pointer = path.join(folder, 'null');
    fs.symlinkSync('/dev/null', pointer);
    writeFile(pointer, 'gone');
    expect(fs.statSync(pointer).isCharacterDevice()).toBe(true);
    expect(fs.lstatSync(pointer).isSymbolicLink()).toBe(true);
  });

  it('names what is in the way of its folder', () => {
    writeFile(file, '');
    expect(() => new AtomicFile(path.join(file, 'below.txt'))).toThrow(`cannot write ${file}: something else`);
    expect(() => makeFolder(path.join(file, 'a', 'b'))).toThrow('a part of the path is not a folder');
  });
});

it.skipIf(process.platform !== 'linux')('makeFolder gives up below /proc, where nothing can be made', () => {
  expect(() => makeFolder('/proc/none/below')).toThrow('cannot write /proc/none');
});

describe('fileError', () => {
  it('gives cause and remedy for known codes, the message for others, and a CalmError as it is', () => {
    const coded = (code: string) => Object.assign(new Error('raw text'), { code });
    expect(fileError(coded('ENOENT'), 'f', 'read').line).toBe('cannot read f: does not exist; check the path');
    expect(fileError(coded('ENOSPC'), 'f', 'write').line).toContain('no space left on the disk; free some space');
    expect(fileError(coded('EWEIRD'), 'f', 'write').line).toBe('cannot write f: raw text');
    expect(fileError('text', 'f', 'write').line).toBe('cannot write f: text');
    const already = new CalmError('known');
    expect(fileError(already, 'f', 'read')).toBe(already);
  });
});

describe('toJson', () => {
  it('writes what JSON lacks as strings, at any depth, and all else as JSON does', () => {
    expect(toJson({ a: NaN, b: [Infinity, { c: -Infinity }], d: 0.1, e: null, f: undefined })).toBe(
      '{"a":"NaN","b":["Infinity",{"c":"-Infinity"}],"d":0.1,"e":null}',
    );
    expect(toJson(NaN)).toBe('"NaN"');
    expect(toJson([1], 2)).toBe('[\n  1\n]');
    fc.assert(fc.property(fc.jsonValue(), (value) => toJson(value) === JSON.stringify(value)));
  });
});

describe('readJson', () => {
  it('reads JSON, with a byte-order mark too', () => {
    fs.writeFileSync(file, '\uFEFF{"a": [1]}');
    expect(readJson(file)).toEqual({ a: [1] });
  });

  it('names the file that is missing, a folder, or not JSON', () => {
    expect(() => readJson(file)).toThrow(`cannot read ${file}: does not exist`);
    expect(() => readJson(folder)).toThrow(`cannot read ${folder}: is a folder`);
    fs.writeFileSync(file, '{"a": ');
    expect(() => readJson(file)).toThrow(`${file} is not JSON: `);
  });
});

async function rowsOf(text: string | Buffer): Promise<[unknown, number][]> {
  fs.writeFileSync(file, text);
  const rows: [unknown, number][] = [];
  for await (const { value, line, where } of readJsonl(file)) {
    expect(where).toBe(`${file}, line ${line}`);
    rows.push([value, line]);
  }
  return rows;
}

describe('readJsonl', () => {
  it('takes a byte-order mark, CRLF, blank lines and a last line without an end', async () => {
    expect(await rowsOf('\uFEFF{"a":1}\r\n\r\n  \n[2]\n"three"')).toEqual([
      [{ a: 1 }, 1],
      [[2], 4],
      ['three', 5],
    ]);
  });

  it('gives back any rows, also when strings hold line separators of Unicode', async () => {
    const rows = fc.array(fc.jsonValue({ stringUnit: 'binary' }), { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(rows, async (values) => {
        const written = values.map((v) => JSON.parse(JSON.stringify(v)) as unknown); // -0 is lost in JSON itself
        const read = await rowsOf(values.map((v) => `${JSON.stringify(v)}\n`).join(''));
        expect(read.map(([value]) => value)).toEqual(written);
      }),
    );
    expect(await rowsOf('"a\u2028b\u2029c\u0085d"\n')).toEqual([['a\u2028b\u2029c\u0085d', 1]]);
  });

  it('gives the rows before a bad line, then names it', async () => {
    const seen: unknown[] = [];
    fs.writeFileSync(file, '{"a":1}\n\n{"a":2\n{"a":3}\n');
    const reading = (async () => {
      for await (const { value } of readJsonl(file)) seen.push(value);
    })();
    await expect(reading).rejects.toThrow(`${file}, line 3 is not JSON: `);
    await expect(reading).rejects.toHaveProperty('remedy', 'expected one JSON object per line');
    expect(seen).toEqual([{ a: 1 }]);
  });

  it('refuses a file without rows, and one that is missing or a folder', async () => {
    for (const text of ['', '\n\r\n \n', '\uFEFF']) {
      await expect(rowsOf(text)).rejects.toThrow(`${file} is empty`);
    }
    const first = (name: string) => readJsonl(name).next();
    await expect(first(path.join(folder, 'none'))).rejects.toThrow('none: does not exist');
    await expect(first(folder)).rejects.toThrow(`cannot read ${folder}: is a folder`);
  });

  it.skipIf(process.platform !== 'linux')('closes the file when the reader stops early', async () => {
    fs.writeFileSync(file, '{"row":1}\n'.repeat(100_000));
    for await (const { line } of readJsonl(file)) if (line === 2) break;
    await new Promise((resolve) => setTimeout(resolve, 50)); // closing takes a turn of the event loop
    const open = fs.readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`) === file;
      } catch {
        return false; // the one that listed the folder
      }
    });
    expect(open).toEqual([]);
  });
});
