import * as fs from 'node:fs';
import * as path from 'node:path';
import { PACKAGE_ROOT, PRESETS, presetFile } from '../base/presets';
import { hasBinding, readLink, runsRealOp } from './engine';
import { kernelInstalled } from './kernel';
import { compilerRemedy, compilers, findPython, nvidiaGpu, type Compilers, type Python } from './machine';
import { sha256 } from './model';
import { KERNEL, VENV, venvCommand } from './paths';
import { readVenv } from './python';

/** What was found on this machine, and what is missing. */
export interface Diagnosis {
  ok: boolean;
  node: { version: string; path: string };
  platform: string;
  python: Python | null;
  venv: { path: string; python: string; made: string } | null;
  tensorflow: {
    version: string | null;
    linked: 'wheel' | 'upstream' | 'none';
    runs: boolean;
    kind: 'cpu' | 'gpu';
    reason?: string;
  };
  kernel: { path: string; installed: boolean };
  jupyter: { version: string; command: string } | null;
  model: { name: string; path: string; present: boolean; sha256_ok: boolean };
  gpu: string | null;
  compilers: Compilers;
  data: { starter: boolean; path: string };
  missing: { what: string; how: string }[];
}

/** Looks at the machine without changing it; works, too, where next to nothing is installed. */
export async function diagnose(): Promise<Diagnosis> {
  const python = findPython();
  const venv = readVenv();
  const link = readLink();
  const tools = compilers();
  const runs = hasBinding() && runsRealOp();
  const name = 'smollm2-135m-instruct';
  const model = presetFile(name);
  const checksum = await sha256(model);
  const starter = path.join(PACKAGE_ROOT, 'datasets', 'starter');
  const found = {
    node: { version: process.versions.node, path: process.execPath },
    platform: `${process.platform} ${process.arch}`,
    python: python ?? null,
    venv: venv ? { path: VENV, python: venv.python, made: venv.made } : null,
    tensorflow: {
      version: (runs && link?.tensorflow) || venv?.tensorflow || null,
      linked: runs ? (link?.kind ?? 'wheel') : 'none',
      runs,
      kind: runs && link?.gpu ? ('gpu' as const) : ('cpu' as const),
      ...(link?.reason && { reason: link.reason }),
    },
    kernel: { path: KERNEL, installed: kernelInstalled() },
    jupyter: venv ? { version: venv.jupyterlab, command: `${venvCommand('jupyter')} lab` } : null,
    model: { name, path: model, present: checksum !== undefined, sha256_ok: checksum === PRESETS[name]?.sha256 },
    gpu: nvidiaGpu() ?? null,
    compilers: tools,
    data: {
      starter: fs.existsSync(path.join(starter, 'mcq', 'train.jsonl')),
      path: starter,
    },
  };
  const start = 'run "npm start"';
  const missing: Diagnosis['missing'] = [];
  const miss = (absent: boolean, what: string, how = start) => absent && missing.push({ what, how });
  miss(!python, 'Python 3.9 or later', 'install Python 3.10 to 3.13 and its venv module');
  miss(!runs && !(tools.cxx && tools.make), 'a C++ compiler and make', compilerRemedy());
  miss(!venv, 'JupyterLab and TensorFlow in .venv');
  miss(!runs, 'TensorFlow behind tfjs (it runs on a slower engine)');
  miss(!found.kernel.installed, 'the notebook kernel');
  miss(
    !found.model.sha256_ok,
    found.model.present ? 'an intact model file (its checksum is wrong)' : `the model ${name}`,
  );
  miss(!found.data.starter, 'the starter questions in datasets/starter', 'run "git checkout datasets"');
  return { ok: missing.length === 0, ...found, missing };
}
