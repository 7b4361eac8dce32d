import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, vi } from 'vitest';
import { run } from '../../src/cli/main';
import { writeTinyFolder } from '../evaluate/tiny-folder';

export interface Said {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs the command line in this process and gives what it said. */
export async function calm(...argv: string[]): Promise<Said> {
  const said = { stdout: '', stderr: '' };
  const listen = (stream: 'stdout' | 'stderr') =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      said[stream] += String(text);
      return true;
    });
  const spies = [listen('stdout'), listen('stderr')];
  try {
    return { code: await run(argv), ...said };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/** The one JSON object on stdout of a verb with `--json`. @throws when the verb failed or anything else stands there */
export async function calmJson<T>(...argv: string[]): Promise<T> {
  const { code, stdout, stderr } = await calm(...argv, '--json');
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}`);
  if (!/^\{[^\n]*\}\n$/.test(stdout)) throw new Error(`stdout is not one line of JSON: ${stdout}`);
  return JSON.parse(stdout) as T;
}

/** The one line a verb fails with, without its `calm: `. @throws when it did anything else */
export async function failure(code: 1 | 2, ...argv: string[]): Promise<string> {
  const said = await calm('--quiet', ...argv);
  if (said.code !== code) throw new Error(`exit ${said.code}, not ${code}: ${said.stderr}`);
  if (said.stdout !== '') throw new Error(`stdout has ${said.stdout}`);
  const line = /^calm: ([^\n]+)\n$/.exec(said.stderr)?.[1];
  if (line === undefined || line.includes('    at ')) throw new Error(`not one line: ${said.stderr}`);
  return line;
}

/** A folder with a tiny model and a way to write files into it. */
export function workplace(): {
  folder: string;
  model: string;
  at: (name: string) => string;
  write: (name: string, content: string | Uint8Array | readonly unknown[]) => string;
} {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-cli-'));
  afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));
  const at = (name: string) => path.join(folder, name);
  return {
    folder,
    model: writeTinyFolder(at('tiny'), { chatTemplate: '{% for m in messages %}[{{ m.content }}]{% endfor %}' }),
    at,
    write: (name, content) => {
      const lines = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
      const bytes = typeof content === 'string' || content instanceof Uint8Array ? content : lines(content);
      fs.mkdirSync(path.dirname(at(name)), { recursive: true });
      fs.writeFileSync(at(name), bytes);
      return at(name);
    },
  };
}
