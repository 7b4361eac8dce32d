import * as fs from 'node:fs';
import * as path from 'node:path';
import { ask } from './command';
import { outsidePath, which } from './paths';

/** The name of the first NVIDIA GPU whose driver answers. */
export function nvidiaGpu(): string | undefined {
  return ask('nvidia-smi', ['--query-gpu=name', '--format=csv,noheader'])?.split('\n')[0] || undefined;
}

export interface Compilers {
  cc?: string;
  cxx?: string;
  make?: string;
}

/** What can compile TensorFlow's binding; CC and CXX in the environment are obeyed. */
export function compilers(): Compilers {
  const named = (variable: string) => (process.env[variable] ? [process.env[variable].split(' ')[0] ?? ''] : []);
  return {
    cc: which([...named('CC'), 'gcc', 'cc', 'clang']),
    cxx: which([...named('CXX'), 'g++', 'c++', 'clang++']),
    make: which([...named('MAKE'), 'make', 'gmake']),
  };
}

/** How to get a compiler here. */
export function compilerRemedy(): string {
  if (process.platform === 'darwin') return 'run "xcode-select --install"';
  return 'install a C++ compiler and make (Debian, Ubuntu: "sudo apt install build-essential"; Fedora: "sudo dnf install gcc-c++ make")';
}

/** Free bytes on the disk that holds `folder`. */
export function freeBytes(folder: string): number {
  const { bavail, bsize } = fs.statfsSync(folder);
  return bavail * bsize;
}

/** The folder of Node's own headers beside this Node, so that node-gyp need not download them. */
export function nodeHeaders(): string | undefined {
  const folder = path.resolve(path.dirname(process.execPath), '..');
  return fs.existsSync(path.join(folder, 'include', 'node', 'node_api.h')) ? folder : undefined;
}

export interface Python {
  path: string;
  /** Such as "3.11.7". */
  version: string;
  major: number;
  minor: number;
  /** Can it make virtual environments? Debian ships that part separately. */
  venv: boolean;
  pip: boolean;
}

const PROBE = `import sys, json
from importlib.util import find_spec as f
print(json.dumps({"path": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3], "major": sys.version_info[0],
"minor": sys.version_info[1], "venv": bool(f("venv") and f("ensurepip")), "pip": bool(f("pip"))}))`;

/** How well a Python serves: 0 for one that TensorFlow 2.21 has a wheel for; undefined for one that is too old. */
export function rank(python: Python): number | undefined {
  if (python.major !== 3 || python.minor < 9) return undefined;
  const tensorflow = python.minor === 9 ? 1 : python.minor <= 13 ? 0 : 2;
  return tensorflow + (python.venv ? 0 : 10);
}

/** The Pythons to try, the plain names first. */
const NAMES = ['python3', 'python', 'py', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3.9'];

/** The Python that serves best, outside the project's own environment. */
export function findPython(): Python | undefined {
  const env = { ...process.env, PATH: outsidePath() };
  let best: Python | undefined;
  for (const name of NAMES) {
    const answer = ask(name, ['-c', PROBE], env);
    if (!answer?.startsWith('{')) continue;
    const python = JSON.parse(answer) as Python;
    const r = rank(python);
    if (r === undefined || (best && r >= (rank(best) ?? Infinity))) continue;
    best = python;
    if (r === 0) break;
  }
  return best;
}
