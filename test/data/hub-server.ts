import { createHash } from 'node:crypto';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SchemaElement as Element } from 'hyparquet' with { 'resolution-mode': 'import' };
import { afterEach, expect } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { hubOf, type HubOptions } from '../../src/data/hub';

export interface Hit {
  path: string;
  headers: http.IncomingHttpHeaders;
}

export type Handler = (request: http.IncomingMessage, response: http.ServerResponse, nth: number) => void;

const open: http.Server[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** A server on the loopback address, closed after the test; `nth` counts the requests for the same path from 0. */
export async function serve(handler: Handler): Promise<{ origin: string; hits: Hit[] }> {
  const hits: Hit[] = [];
  const server = http.createServer((request, response) => {
    const url = request.url ?? '';
    hits.push({ path: url, headers: request.headers });
    handler(request, response, hits.filter(({ path }) => path === url).length - 1);
  });
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, hits };
}

/** An address of this machine at which nobody listens. */
export async function closedPort(): Promise<string> {
  const server = http.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}

/** A hub that waits for nothing and takes down for how long it would have. */
export function patient(endpoint: string, options: HubOptions = {}) {
  const waits: number[] = [];
  const hub = hubOf({ endpoint, silence: 5000, wait: async (milliseconds) => waits.push(milliseconds), ...options });
  return { hub, waits };
}

/** The error of one line that some work ends with. */
export async function failure(work: Promise<unknown>): Promise<CalmError> {
  const error: unknown = await work.catch((e: unknown) => e);
  if (!(error instanceof CalmError)) throw new Error(`gave ${String(error)}`);
  expect(error.line).not.toMatch(/\n| {4}at /);
  return error;
}

export const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Sends a file, or the rest of it that is asked for. */
export function sendFile(request: http.IncomingMessage, response: http.ServerResponse, bytes: Uint8Array): void {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  if (from >= bytes.length) {
    response.writeHead(416, { 'content-range': `bytes */${bytes.length}` }).end();
    return;
  }
  const rest = bytes.subarray(from);
  const range = from > 0 && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
  response.writeHead(from > 0 ? 206 : 200, { 'content-length': rest.length, ...range }).end(rest);
}

/**
 * The hub as it answers for Parquet: a list of addresses, each of which redirects to the file and tells its checksum.
 * `files` has the files of `repo/config/split`.
 */
export function hub(files: Record<string, readonly Uint8Array[]>): Handler {
  return (request, response) => {
    const url = request.url ?? '';
    const [, repo, name] = /^\/api\/datasets\/([^/]+\/[^/]+)\/parquet\/(.+)$/.exec(url) ?? [];
    const all = files[`${repo}/${name}`];
    const origin = `http://${request.headers.host}`;
    if (all) {
      const list = all.map((_, i) => `${origin}${url}/${i}.parquet`);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(list));
      return;
    }
    const [, key = '', part] = /^\/(?:store|api\/datasets)\/(.+)\/(\d+)\.parquet$/.exec(url) ?? [];
    const bytes = files[key.replace('/parquet/', '/')]?.[Number(part)];
    if (!bytes) response.writeHead(404).end('{"error":"not found"}');
    else if (url.startsWith('/store/')) sendFile(request, response, bytes);
    else {
      const told = { 'x-linked-etag': `"${sha256(bytes)}"`, 'x-linked-size': bytes.length };
      const location = `/store/${key.replace('/parquet/', '/')}/${part}.parquet`;
      response.writeHead(302, { location, ...told }).end('Found');
    }
  };
}

type Value = string | number | bigint | Value[] | { [name: string]: Value };

/** A column's part of a Parquet schema, lists in three levels as Arrow writes them. */
function schemaOf(name: string, value: Value): Element[] {
  const optional = { name, repetition_type: 'OPTIONAL' } as const;
  if (typeof value === 'string') return [{ ...optional, type: 'BYTE_ARRAY', converted_type: 'UTF8' }];
  if (typeof value === 'number') return [{ ...optional, type: 'INT32' }];
  if (typeof value === 'bigint') return [{ ...optional, type: 'INT64' }];
  if (Array.isArray(value)) {
    const list: Element = { name: 'list', repetition_type: 'REPEATED', num_children: 1 };
    return [{ ...optional, converted_type: 'LIST', num_children: 1 }, list, ...schemaOf('element', value[0]!)];
  }
  const fields = Object.entries(value);
  return [{ ...optional, num_children: fields.length }, ...fields.flatMap(([field, v]) => schemaOf(field, v))];
}

/** Rows as a Parquet file, compressed with Snappy as the hub's are. */
export async function parquet(rows: readonly Record<string, Value>[]): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const columns = Object.entries(rows[0]!);
  const schema: Element[] = [{ name: 'schema', num_children: columns.length }];
  for (const [name, value] of columns) schema.push(...schemaOf(name, value));
  const columnData = columns.map(([name]) => ({ name, data: rows.map((row) => row[name]!) }));
  return new Uint8Array(parquetWriteBuffer({ columnData, schema }));
}
