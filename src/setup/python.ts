import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { toJson, writeFile } from '../base/files';
import { PACKAGE_ROOT } from '../base/presets';
import { ask, CommandFailed } from './command';
import { findPython, freeBytes, nvidiaGpu, type Python } from './machine';
import { VENV, venvCommand } from './paths';
import { Degraded, type Step, type Workshop } from './steps';

/** What is known about a finished environment: `.venv/calm-lab.json`, written last, so that a half-made one lacks it. */
export interface VenvRecord {
  /** The project's folder; an environment cannot be moved. */
  root: string;
  /** When it was made, which also tells one environment from the next. */
  made: string;
  python: string;
  requirements: string;
  cuda: boolean;
  jupyterlab: string;
  /** Null where TensorFlow has no wheel for this Python or machine. */
  tensorflow: string | null;
  /** Where the packages are. */
  packages: string;
}

const RECORD = path.join(VENV, 'calm-lab.json');

const requirementFiles = (cuda: boolean) =>
  ['requirements-jupyter.txt', cuda ? 'requirements-tensorflow-cuda.txt' : 'requirements-tensorflow.txt'].map((name) =>
    path.join(PACKAGE_ROOT, 'src', 'setup', name),
  );

/** The pip that comes with an older Python can take hours to resolve the requirements; this one takes seconds. */
const PIP = 'pip>=26.0.1';

function requirementsHash(cuda: boolean): string {
  const hash = createHash('sha256').update(PIP);
  for (const file of requirementFiles(cuda)) hash.update(fs.readFileSync(file));
  return hash.digest('hex');
}

/** The record of a whole environment that belongs to `root`, or undefined: absent, half-made, moved, or its Python is gone. */
export function readVenv(file = RECORD, root = PACKAGE_ROOT, python = venvCommand('python')): VenvRecord | undefined {
  let record: VenvRecord;
  try {
    record = JSON.parse(fs.readFileSync(file, 'utf8')) as VenvRecord;
  } catch {
    return undefined;
  }
  return record.root === path.resolve(root) && fs.existsSync(python) ? record : undefined;
}

export const describeVenv = (r: VenvRecord) =>
  `Python ${r.python}, JupyterLab ${r.jupyterlab}, ` +
  (r.tensorflow ? `TensorFlow ${r.tensorflow}${r.cuda ? ' with CUDA' : ''}` : 'no TensorFlow for this Python');

/** pip's chatter in a few words; `before` is the note before it, to which a download adds how far it is. */
export function pipNote(line: string, before: string): string {
  const [, done, total] = /^Progress (\d+) of (\d+)/.exec(line) ?? [];
  if (done && Number(total) > 0) {
    return `${before.replace(/, \d+ %$/, '')}, ${Math.floor((100 * Number(done)) / Number(total))} %`;
  }
  const [, verb, what] = /^\s*(Collecting|Downloading|Installing collected packages)\b:?\s*(.*)/.exec(line) ?? [];
  if (!verb || what === undefined) return before;
  if (verb === 'Installing collected packages') return `installing ${what.split(',').length} packages`;
  return `${verb.toLowerCase()} ${what.replace(/^\S*\//, '').replace(/(-py\d|-cp\d).*?\.whl|\.metadata/, '')}`;
}

async function pip({ run, report }: Workshop, args: readonly string[]): Promise<void> {
  let note = '';
  await run(venvCommand('python'), ['-m', 'pip', 'install', '--no-input', '--disable-pip-version-check', ...args], {
    line: (line) => report((note = pipNote(line, note))),
  });
}

const INFO = `import json, sysconfig
from importlib.metadata import version, PackageNotFoundError
def v(*names):
    for n in names:
        try: return version(n)
        except PackageNotFoundError: pass
print(json.dumps({"packages": sysconfig.get_paths()["purelib"], "jupyterlab": v("jupyterlab"), "tensorflow": v("tensorflow-cpu", "tensorflow")}))`;

function requirePython(): Python {
  const python = findPython();
  if (!python) {
    throw new Degraded('no Python 3.9 or later was found, so there is neither JupyterLab nor TensorFlow', {
      remedy:
        'install Python 3.10 to 3.13 (https://python.org, or "sudo apt install python3 python3-venv") and run this again',
    });
  }
  if (!python.venv) {
    throw new Degraded(`Python ${python.version} at ${python.path} cannot make virtual environments`, {
      remedy: `install the part that is missing (Debian, Ubuntu: "sudo apt install python3.${python.minor}-venv") and run this again`,
    });
  }
  return python;
}

/** JupyterLab and TensorFlow in `.venv`, made anew whenever it is not exactly what is wanted. */
export const pythonStep: Step = {
  name: 'python',
  doing: 'making .venv with JupyterLab and TensorFlow',

  async done() {
    const record = readVenv();
    if (!record || record.requirements !== requirementsHash(record.cuda)) return undefined;
    // A folder shared by machines with and without a GPU keeps the CUDA build, which runs on both.
    return record.cuda || !wantsCuda() ? describeVenv(record) : undefined;
  },

  async run(workshop) {
    const python = requirePython();
    const cuda = wantsCuda();
    const gigabytes = cuda ? 9 : 2.5;
    fs.rmSync(RECORD, { force: true }); // first, so that an interrupted removal is not taken for an environment
    workshop.report('removing the old one');
    await fs.promises.rm(VENV, { recursive: true, force: true, maxRetries: 3 });
    const free = freeBytes(PACKAGE_ROOT) / 1e9;
    if (free < gigabytes) {
      throw new CalmError(`.venv needs about ${gigabytes} GB and ${free.toFixed(1)} GB are free`, {
        remedy: 'free some space and run this again',
      });
    }
    workshop.report(`with Python ${python.version}`);
    await workshop.run(python.path, ['-m', 'venv', VENV]);
    const [jupyter, tensorflow] = requirementFiles(cuda) as [string, string];
    const options = ['--progress-bar', 'raw', '--prefer-binary'];
    await pip(workshop, ['--upgrade', PIP]);
    await pip(workshop, [...options, '-r', jupyter]);
    try {
      await pip(workshop, [...options, '-r', tensorflow]);
    } catch (error) {
      // JupyterLab has just come from the same index, so TensorFlow has no wheel for this kind of machine.
      if (!(error instanceof CommandFailed && /No matching distribution found for tensorflow/.test(error.output)))
        throw error;
    }
    const info = ask(venvCommand('python'), ['-c', INFO]);
    if (!info) throw new CalmError('the new .venv does not run', { remedy: 'run this again' });
    const record: VenvRecord = {
      root: PACKAGE_ROOT,
      made: new Date().toISOString(),
      python: python.version,
      requirements: requirementsHash(cuda),
      cuda,
      ...(JSON.parse(info) as Pick<VenvRecord, 'packages' | 'jupyterlab' | 'tensorflow'>),
    };
    writeFile(RECORD, `${toJson(record, 2)}\n`);
    return describeVenv(record);
  },
};

const wantsCuda = () => process.platform === 'linux' && process.arch === 'x64' && nvidiaGpu() !== undefined;
