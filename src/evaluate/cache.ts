import { createHash, randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileError, makeFolder, toJson, writeFile } from '../base/files';
import { shortHash } from '../base/hash';
import { cacheFolder } from '../base/presets';
import type { LanguageModel } from '../pretrained';

/** Changes when what is stored does: answers of other versions are then not found. */
const VERSION = 1;

/**
 * Answers of one model that are kept on disk, so that an evaluation which was interrupted continues, and one that is
 * repeated costs nothing. They are found by the token ids that were asked, so tokenizer and template need no mention, in
 * a folder for everything else that decides them: weights and how they are held, adapter, head, context and engine.
 *
 * Each process appends to a file of its own and reads those of all, so that two may run at once; an answer is one line,
 * and a line that was cut by a kill is not read.
 */
export class ResponseCache {
  private readonly answers = new Map<string, unknown>();
  private file: number | undefined;

  /** @param folder of this model's answers, see `openCache` */
  constructor(private readonly folder: string) {
    if (!fs.existsSync(folder)) return;
    for (const name of fs.readdirSync(folder).filter((entry) => entry.endsWith('.jsonl'))) {
      for (const line of fs.readFileSync(path.join(folder, name), 'utf8').split('\n')) {
        const [key, answer] = parseLine(line);
        if (key !== undefined) this.answers.set(key, answer);
      }
    }
  }

  get size(): number {
    return this.answers.size;
  }

  /**
   * The answers to requests: those that are known, and those that `compute` finds, which are kept one by one.
   * @param keys of the requests, see `requestKey`
   * @param compute is given the requests that are not known, and calls `found` for each
   * @throws CalmError when the disk is full; what was kept stays
   */
  recall<V>(keys: readonly string[], compute: (missing: number[], found: (i: number, answer: V) => void) => void): V[] {
    const out = keys.map((key) => this.answers.get(key) as V | undefined);
    const missing = [...keys.keys()].filter((i) => out[i] === undefined);
    compute(missing, (i, answer) => {
      out[i] = answer;
      this.keep(keys[i]!, answer);
    });
    return out as V[];
  }

  private keep(key: string, answer: unknown): void {
    const text = toJson([key, answer]);
    if (/"(NaN|-?Infinity)"/.test(text)) return; // a fault that may be gone the next time
    this.answers.set(key, answer);
    try {
      if (this.file === undefined) {
        makeFolder(this.folder);
        const name = `${process.pid}-${randomBytes(4).toString('hex')}.jsonl`;
        this.file = fs.openSync(path.join(this.folder, name), 'a');
      }
      fs.writeFileSync(this.file, `${text}\n`);
    } catch (error) {
      throw fileError(error, this.folder, 'write');
    }
  }

  /** Closes its file; nothing is kept after it. */
  close(): void {
    if (this.file !== undefined) fs.closeSync(this.file);
    this.file = undefined;
  }
}

/** The key of a request: what is asked (`kind`), as token ids. */
export function requestKey(kind: string, ...ids: (readonly number[] | Int32Array)[]): string {
  const hash = createHash('sha256').update(kind);
  for (const list of ids) hash.update(`;${list.join()}`);
  return hash.digest('base64url').slice(0, 27);
}

/** The answers of a model under `parent`, by default the project's cache. @throws CalmError when they cannot be read */
export function openCache(model: LanguageModel, parent = path.join(cacheFolder(), 'responses')): ResponseCache {
  const identity = {
    version: VERSION,
    model: model.hash,
    weights: model.weights,
    adapter: model.tuning?.adapterHash ?? null,
    head: model.tuning?.head ?? null,
    context: model.config.maxPositions,
    engine: { kind: model.engine.kind, gpu: model.engine.gpu },
  };
  const text = JSON.stringify(identity);
  const folder = path.join(parent, shortHash(text));
  try {
    if (!fs.existsSync(path.join(folder, 'identity.json'))) writeFile(path.join(folder, 'identity.json'), `${text}\n`);
    return new ResponseCache(folder);
  } catch (error) {
    throw fileError(error, folder, 'read');
  }
}

function parseLine(line: string): [string | undefined, unknown] {
  try {
    const parsed: unknown = JSON.parse(line);
    return Array.isArray(parsed) && typeof parsed[0] === 'string' ? [parsed[0], parsed[1]] : [undefined, undefined];
  } catch {
    return [undefined, undefined]; // cut by a kill, or the empty line at the end
  }
}
