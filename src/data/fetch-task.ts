import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { readJson, toJson, writeFile } from '../base/files';
import { pick } from '../base/pick';
import { cacheFolder } from '../base/presets';
import { startProgress } from '../base/progress';
import { download, type Download } from './download';
import { getJson, hubOf, Unreachable, type Hub, type HubOptions } from './hub';
import { MCQA } from './mixture';
import { SOURCES, type Source } from './sources';

/** The hub, HF_ENDPOINT and HF_TOKEN unless they are given, and where rows go. */
export interface FetchTaskOptions extends HubOptions {
  /** The folder that `loadTask` is given as `data`; by default `data` in the project's cache. */
  data?: string;
}

export interface FetchedSplit {
  split: string;
  file: string;
  /** Absent for a file that was not fetched by calm-lab. */
  rows?: number;
  /** Whether it was there already and left as it is. */
  status: 'fetched' | 'there';
}

export interface FetchedTask {
  task: string;
  /** What to give `loadTask` as `data`. */
  data: string;
  splits: FetchedSplit[];
}

/**
 * Downloads a public benchmark from Hugging Face's hub into `DATA/<folder>/<split>.jsonl`, in the layout that
 * `loadTask(name, { data })` reads, with where it came from in `SOURCE.json` beside. Splits that are there are left
 * alone. What a run that is cut short has downloaded is kept as `.partial` and not downloaded again.
 * @throws UsageError for an unknown name; CalmError in one line for all that can go wrong on the way
 */
export async function fetchTask(
  name: string,
  { data = path.join(cacheFolder(), 'data'), ...options }: FetchTaskOptions = {},
): Promise<FetchedTask> {
  const source = pick('benchmark', name, SOURCES);
  const hub = hubOf(options);
  const folder = path.join(data, source.folder ?? name);
  const fileOf = (split: string) => path.join(folder, `${split}.jsonl`);
  const names = Object.keys(source.splits);
  const missing = names.filter((split) => !fs.existsSync(fileOf(split)));
  for (const from of new Set(missing.map((split) => source.splits[split]!))) {
    const splits = missing.filter((split) => source.splits[split] === from);
    await fetchSplits(hub, name, source, from, splits, folder);
  }
  const record = readRecord(folder);
  const splits = names.map((split): FetchedSplit => {
    const rows = record[split]?.rows;
    const status = missing.includes(split) ? 'fetched' : 'there';
    return { split, file: fileOf(split), ...(rows !== undefined && { rows }), status };
  });
  return { task: name, data, splits };
}

/**
 * The benchmarks that tasks are drawn from, each once: themselves, but for `mcqa`.
 * @throws UsageError for a task that is not fetched
 */
export function benchmarksOf(tasks: readonly string[]): string[] {
  const names = tasks.flatMap((name) => (name === 'mcqa' ? MCQA.map((part) => part.name) : [name]));
  for (const name of names) {
    if (name === 'starter') throw new UsageError('the task starter comes with calm-lab', { remedy: 'leave it out' });
    pick('benchmark', name, SOURCES);
  }
  return [...new Set(names)];
}

/** Fetches one split of the hub, `from`, and writes the splits that are made of it here. */
async function fetchSplits(
  hub: Hub,
  name: string,
  source: Source,
  from: string,
  splits: readonly string[],
  folder: string,
): Promise<void> {
  const record = readRecord(folder); // before the work, rather than fail after it
  const parts: (Download & { url: string; partial: string })[] = [];
  try {
    for (const [i, url] of (await filesOf(hub, source, from)).entries()) {
      const partial = path.join(folder, `${splits[0]}-${i}.parquet.partial`);
      parts.push({ url, partial, ...(await withProgress(`${name} ${from}, bytes`, hub, url, partial)) });
    }
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    throw new CalmError(error.message, { remedy: byHand(source, folder), cause: error });
  }
  try {
    const all: object[] = [];
    for (const { url, partial } of parts) all.push(...convertAll(url, await readParquet(url, partial), source));
    const { repo, config } = source;
    const files = parts.map(({ url, bytes, sha256, verified }) => ({ url, bytes, sha256, verified }));
    const date = new Date().toISOString();
    for (const split of splits) {
      const rows = all.slice(...(source.slices?.[split] ?? []));
      if (rows.length === 0) {
        const which = source.slices ? ` for ${split} (it has ${all.length})` : '';
        throw new CalmError(`${repo} has no rows in its split ${from}${which}`);
      }
      record[split] = { repo, config, split: from, files, rows: rows.length, date };
      // The rows last: where they are, so is their source.
      writeFile(path.join(folder, RECORD), `${toJson({ splits: record }, 2)}\n`);
      writeFile(path.join(folder, `${split}.jsonl`), rows.map((row) => `${toJson(row)}\n`).join(''));
    }
  } finally {
    for (const { partial } of parts) fs.rmSync(partial, { force: true });
  }
}

/** The addresses of a split's Parquet files, which the hub makes of every public data set. */
async function filesOf(hub: Hub, { repo, config }: Source, split: string): Promise<string[]> {
  const names = [config, split].map(encodeURIComponent).join('/');
  const address = `${hub.endpoint}/api/datasets/${repo}/parquet/${names}`;
  const found = z
    .array(z.string())
    .min(1)
    .safeParse(await getJson(hub, address));
  if (!found.success) throw new CalmError(`${address} lists no Parquet files`, { remedy: 'look for it on the hub' });
  return found.data.map((file) => {
    // A mirror hands out the hub's own addresses, which may be out of reach where there is a mirror.
    const url = file.replace(/^https:\/\/huggingface\.co(?=\/)/, hub.endpoint);
    const { protocol, href } = URL.canParse(url, hub.endpoint) ? new URL(url, hub.endpoint) : {};
    if (href !== undefined && (protocol === 'https:' || protocol === new URL(hub.endpoint).protocol)) return href;
    throw new CalmError(`${address} lists "${file}", which cannot be downloaded`, { remedy: 'check HF_ENDPOINT' });
  });
}

async function withProgress(label: string, hub: Hub, url: string, partial: string): Promise<Download> {
  let progress: ReturnType<typeof startProgress> | undefined;
  let end = 'cut off';
  try {
    const done = await download(hub, url, partial, (bytes, total) => {
      progress ??= total === undefined ? undefined : startProgress(label, total);
      progress?.update(bytes);
    });
    end = '';
    return done;
  } finally {
    progress?.stop(end);
  }
}

async function readParquet(url: string, file: string): Promise<unknown[]> {
  const { parquetReadObjects } = await import('hyparquet'); // an ES module
  try {
    return await parquetReadObjects({ file: new Uint8Array(fs.readFileSync(file)).buffer });
  } catch (error) {
    throw new CalmError(`${url} cannot be read as a Parquet file: ${(error as Error).message}`, {
      remedy: 'it was removed, run again',
      cause: error,
    });
  }
}

function convertAll(url: string, rows: readonly unknown[], { convert }: Source): object[] {
  return rows.map((row, i) => {
    try {
      return convert(row);
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      const [issue] = error.issues;
      const reason = `field "${issue?.path.join('.')}": ${issue?.message}`;
      throw new CalmError(`${url}, row ${i + 1}: ${reason}`, {
        remedy: 'the data set is no longer laid out as calm-lab knows it',
        cause: error,
      });
    }
  });
}

/** What to do without a network. */
function byHand({ splits, fields = ['question', 'choices', 'answer'] }: Source, folder: string): string {
  const files = Object.keys(splits).map((split) => path.join(folder, `${split}.jsonl`));
  const layout = `{${fields.map((field) => `"${field}"`).join(', ')}}`;
  return `check the network, HF_ENDPOINT and the proxy, or write rows ${layout} to ${files.join(', ')} yourself`;
}

const RECORD = 'SOURCE.json';
const recordLayout = z.object({
  splits: z.record(
    z.string(),
    z.object({
      repo: z.string(),
      config: z.string(),
      split: z.string(),
      files: z.array(z.object({ url: z.string(), bytes: z.int(), sha256: z.string(), verified: z.boolean() })),
      rows: z.int(),
      date: z.string(),
    }),
  ),
});

/** Where each split of a folder came from. @throws CalmError for a file of that name that says something else */
function readRecord(folder: string): z.infer<typeof recordLayout>['splits'] {
  const file = path.join(folder, RECORD);
  if (!fs.existsSync(file)) return {};
  const { data } = recordLayout.safeParse(readJson(file));
  if (data) return data.splits;
  throw new CalmError(`${file} is not as calm fetch writes it`, { remedy: 'move it away and run again' });
}
