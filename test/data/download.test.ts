import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { download } from '../../src/data/download';
import { temporaryFolder } from '../model/make-files';
import { failure, patient, sendFile, serve, sha256, type Handler } from './hub-server';

const folder = temporaryFolder();
const FILE = Uint8Array.from({ length: 300_000 }, (_, i) => (i * i) % 251);
let made = 0;
const partialFile = () => path.join(folder, `${made++}`, 'file.partial');

/** Sends the first bytes of the file, then cuts the connection. */
const cut: (response: Parameters<Handler>[1], bytes: number, headers?: object) => void = (response, bytes, headers) => {
  response.writeHead(200, { 'content-length': FILE.length, ...headers });
  response.write(FILE.subarray(0, bytes), () => setTimeout(() => response.destroy(), 50));
};

describe('download', () => {
  it('follows redirects, relative and to another origin, which does not see the token', async () => {
    const store = await serve((request, response) => sendFile(request, response, FILE));
    const { origin, hits } = await serve((request, response) => {
      if (request.url === '/file') return response.writeHead(307, { location: '/moved?a=1' }).end();
      const told = { 'x-linked-etag': `"${sha256(FILE)}"`, 'x-linked-size': FILE.length };
      return response.writeHead(302, { location: `${store.origin}/blob`, ...told }).end('Found');
    });
    const { hub, waits } = patient(origin, { token: 'hf_secret' });
    const partial = partialFile();
    const steps: [number, number | undefined][] = [];
    const done = await download(hub, `${origin}/file`, partial, (bytes, total) => steps.push([bytes, total]));
    expect(done).toEqual({ bytes: FILE.length, sha256: sha256(FILE), verified: true });
    expect(new Uint8Array(fs.readFileSync(partial))).toEqual(FILE);
    expect(steps.at(-1)).toEqual([FILE.length, FILE.length]);
    expect(hits.map(({ path: url }) => url)).toEqual(['/file', '/moved?a=1']);
    expect(hits.map(({ headers }) => headers.authorization)).toEqual(['Bearer hf_secret', 'Bearer hf_secret']);
    expect(store.hits.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    expect(waits).toEqual([]);
  });

  it('gives up after five redirects', async () => {
    const { origin, hits } = await serve((_request, response) => response.writeHead(302, { location: '/' }).end());
    const error = await failure(download(patient(origin).hub, origin, partialFile()));
    expect(error.line).toContain('redirects more than 5 times');
    expect(hits).toHaveLength(6);
  });

  it('goes on where a connection was cut', async () => {
    const { origin, hits } = await serve((request, response, nth) =>
      nth === 0 ? cut(response, 120_000) : sendFile(request, response, FILE),
    );
    const notices: string[] = [];
    const { hub, waits } = patient(origin, { notice: (line) => notices.push(line) });
    const partial = partialFile();
    expect(await download(hub, origin, partial)).toMatchObject({ sha256: sha256(FILE), verified: false });
    expect(hits.map(({ headers }) => headers.range)).toEqual([undefined, 'bytes=120000-']);
    expect(new Uint8Array(fs.readFileSync(partial))).toEqual(FILE);
    expect(waits).toEqual([1000]);
    expect(notices).toEqual([
      expect.stringMatching(/^the connection to 127\S+ was cut \(\w+.*\), trying again in 1 s$/),
    ]);
  });

  it('starts again where the server ignores the range, and where it answers another one', async () => {
    const ignoring = await serve((_request, response, nth) =>
      nth === 0 ? cut(response, 100_000) : response.writeHead(200, { 'content-length': FILE.length }).end(FILE),
    );
    const other = await serve((_request, response, nth) => {
      if (nth === 0) return cut(response, 100_000);
      const range = { 'content-range': `bytes 7-${FILE.length - 1}/${FILE.length}` };
      return nth === 1 ? response.writeHead(206, range).end(FILE.subarray(7)) : response.writeHead(200).end(FILE);
    });
    for (const { origin, hits } of [ignoring, other]) {
      const partial = partialFile();
      expect(await download(patient(origin).hub, origin, partial)).toMatchObject({ sha256: sha256(FILE) });
      expect(hits[1]?.headers.range).toBe('bytes=100000-');
    }
    expect(other.hits[2]?.headers.range).toBeUndefined();
  });

  it('takes up what an earlier run left, whole or in part', async () => {
    const told = { 'x-linked-etag': sha256(FILE) };
    const { origin, hits } = await serve((request, response) => {
      for (const [name, value] of Object.entries(told)) response.setHeader(name, value);
      sendFile(request, response, FILE);
    });
    for (const left of [1000, FILE.length]) {
      const partial = partialFile();
      fs.mkdirSync(path.dirname(partial));
      fs.writeFileSync(partial, FILE.subarray(0, left));
      expect(await download(patient(origin).hub, origin, partial)).toMatchObject({ verified: true });
      expect(hits.at(-1)?.headers.range).toBe(`bytes=${left}-`);
    }
  });

  it('takes up nothing that may be of another file', async () => {
    const checked = await serve((request, response) => {
      response.setHeader('x-linked-etag', sha256(FILE));
      sendFile(request, response, FILE);
    });
    const unchecked = await serve((request, response) => sendFile(request, response, FILE));
    for (const { origin, hits } of [checked, unchecked]) {
      const partial = partialFile();
      fs.mkdirSync(path.dirname(partial));
      fs.writeFileSync(partial, 'of an older version');
      const { hub, waits } = patient(origin);
      expect(await download(hub, origin, partial)).toMatchObject({ sha256: sha256(FILE) });
      expect(hits.map(({ headers }) => headers.range)).toEqual(['bytes=19-', undefined]);
      expect(waits).toEqual([0]);
    }
  });

  it('removes a file with another checksum than was told', async () => {
    const { origin } = await serve((request, response) => {
      response.setHeader('x-linked-etag', `"${'0'.repeat(64)}"`);
      sendFile(request, response, FILE);
    });
    const partial = partialFile();
    const { line } = await failure(download(patient(origin).hub, `${origin}/f.parquet`, partial));
    expect(line).toContain(`${origin}/f.parquet arrived with SHA-256 ${sha256(FILE)}, not ${'0'.repeat(64)}`);
    expect(fs.existsSync(partial)).toBe(false);
  });

  it('tells a file that ends too early or late by the size of the original', async () => {
    const early = await serve((_request, response) =>
      response.writeHead(200, { 'x-linked-size': FILE.length }).end(FILE.subarray(0, 10)),
    );
    const partial = partialFile();
    const { line } = await failure(download(patient(early.origin).hub, early.origin, partial));
    expect(line).toMatch(/ended at 10 of 300000 bytes; run again later, what has been downloaded is kept$/);
    expect(fs.statSync(partial).size).toBe(10);
    const late = await serve((_request, response) => response.writeHead(200, { 'x-linked-size': 10 }).end(FILE));
    expect((await failure(download(patient(late.origin).hub, late.origin, partial))).line).toContain(
      'sends 300000 bytes, not 10',
    );
    expect(fs.existsSync(partial)).toBe(false);
  });

  it('waits for a server that is silent only so long', async () => {
    const { origin, hits } = await serve((request, response, nth) => {
      if (nth > 0) return sendFile(request, response, FILE);
      response.writeHead(200, { 'content-length': FILE.length });
      return response.write(FILE.subarray(0, 5000));
    });
    const { hub, waits } = patient(origin, { silence: 200 });
    expect(await download(hub, origin, partialFile())).toMatchObject({ sha256: sha256(FILE) });
    expect(hits[1]?.headers.range).toBe('bytes=5000-');
    expect(waits).toEqual([1000]);
    const mute = await serve(() => undefined);
    const { line } = await failure(download({ ...hub, silence: 50 }, mute.origin, partialFile()));
    expect(line).toMatch(/^127\.0\.0\.1:\d+ was silent for 0\.05 s; run again later/);
  });

  it('says where it cannot write', async () => {
    const { origin, hits } = await serve((request, response) => sendFile(request, response, FILE));
    const { line } = await failure(download(patient(origin).hub, origin, folder));
    expect(line).toContain(`cannot write ${folder}: `);
    expect(hits).toHaveLength(1);
  });
});
