import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { toJson, writeFile } from '../base/files';
import { PACKAGE_ROOT } from '../base/presets';
import { ask } from './command';
import environment from './environment.json';
import { compilerRemedy, compilers, nodeHeaders } from './machine';
import { TFJS_NODE, venvCommand } from './paths';
import { readVenv, type VenvRecord } from './python';
import { Degraded, type Step, type Workshop } from './steps';

/** How TensorFlow got behind tfjs. It lies inside the package, so that it goes when npm replaces the package. */
export interface LinkRecord {
  kind: 'wheel' | 'upstream' | 'none';
  /** Why nothing is linked, for kind `none`. */
  reason?: string;
  tensorflow?: string;
  gpu?: boolean;
  /** The environment (VenvRecord.made) and the Node major that it was linked for. */
  venv: string | undefined;
  node: string;
}

const RECORD = path.join(TFJS_NODE, 'calm-lab.json');
const nodeMajor = () => process.versions.node.split('.')[0] ?? '';

export function readLink(): LinkRecord | undefined {
  try {
    return JSON.parse(fs.readFileSync(RECORD, 'utf8')) as LinkRecord;
  } catch {
    return undefined;
  }
}

/** Why TensorFlow's wheel cannot be linked here, or undefined when it can. */
function obstacle(venv: VenvRecord | undefined): { reason: string; remedy: string } | undefined {
  if (process.platform !== 'linux' && process.platform !== 'darwin') {
    return { reason: `TensorFlow's wheel cannot be linked on ${process.platform}`, remedy: 'use Linux, macOS or WSL' };
  }
  if (!venv)
    return { reason: 'there is no Python environment to take TensorFlow from', remedy: 'see the line about Python' };
  if (!venv.tensorflow) {
    const remedy = `install Python 3.10 to 3.13, remove .venv and run this again`;
    return { reason: `TensorFlow has no wheel for Python ${venv.python} on this machine`, remedy };
  }
  if (/\s/.test(PACKAGE_ROOT)) {
    const remedy = 'move the project to a folder without one and run this again';
    return { reason: `the compiler's tools cannot work in a path with a space (${PACKAGE_ROOT})`, remedy };
  }
  const { cxx, make } = compilers();
  if (!cxx || !make)
    return { reason: `there is no ${cxx ? 'make' : 'C++ compiler'}`, remedy: `${compilerRemedy()} and run this again` };
  return undefined;
}

/** Lays the wheel's headers and libraries where the package's own build file expects upstream's download. */
function layOut(venv: VenvRecord): string {
  const wheel = path.join(venv.packages, 'tensorflow');
  const lib = path.join(TFJS_NODE, 'deps', 'lib');
  fs.rmSync(path.join(TFJS_NODE, 'deps'), { recursive: true, force: true });
  fs.mkdirSync(lib, { recursive: true });
  fs.symlinkSync(path.join(wheel, 'include'), path.join(TFJS_NODE, 'deps', 'include'));
  const names: [string, string][] =
    process.platform === 'darwin'
      ? [
          ['libtensorflow.2.dylib', 'libtensorflow_cc.2.dylib'],
          ['libtensorflow_framework.2.dylib', 'libtensorflow_framework.2.dylib'],
        ]
      : [
          ['libtensorflow.so', 'libtensorflow_cc.so.2'],
          ['libtensorflow_framework.so', 'libtensorflow_framework.so.2'],
        ];
  for (const [link, file] of names) {
    if (!fs.existsSync(path.join(wheel, file))) {
      throw new CalmError(`the TensorFlow wheel in .venv has no ${file}`, {
        remedy: 'remove .venv and run this again',
      });
    }
    fs.symlinkSync(path.join(wheel, file), path.join(lib, link));
  }
  return wheel;
}

const nodePreGyp = path.join(PACKAGE_ROOT, 'node_modules', '@mapbox', 'node-pre-gyp', 'bin', 'node-pre-gyp');

async function linkWheel(workshop: Workshop, venv: VenvRecord): Promise<void> {
  const wheel = layOut(venv);
  const { cc, cxx } = compilers();
  const headers = nodeHeaders();
  const env: NodeJS.ProcessEnv = {
    CC: cc,
    CXX: cxx,
    ...(headers && { npm_config_nodedir: headers }),
    ...process.env,
    npm_config_python: venvCommand('python'),
    // The libraries are loaded from the wheel itself: they look for each other, and for CUDA's, relative to where they lie.
    LDFLAGS: `${process.env['LDFLAGS'] ?? ''} -Wl,-rpath,'${wheel}'`,
  };
  workshop.report('compiling the binding');
  await workshop.run(process.execPath, [nodePreGyp, 'install', '--build-from-source'], { cwd: TFJS_NODE, env });
}

/** The package's own way: a prebuilt libtensorflow 2.9 and binding from the maintainers' storage. */
async function takeUpstream(workshop: Workshop): Promise<void> {
  workshop.report("downloading upstream's prebuilt library");
  const bin = path.join(PACKAGE_ROOT, 'node_modules', '.bin');
  const env = { ...process.env, PATH: `${bin}${path.delimiter}${process.env['PATH']}` };
  await workshop.run(process.execPath, ['scripts/install.js', 'cpu', 'download'], { cwd: TFJS_NODE, env, limit: 300 });
}

const REAL_OP = `
const tf = require('@tensorflow/tfjs-node-gpu');
const sum = tf.tidy(() => tf.matMul(tf.ones([64, 64]), tf.ones([64, 64])).sum().dataSync()[0]);
if (tf.getBackend() !== 'tensorflow' || sum !== 64 ** 3) throw new Error('wrong result ' + sum + ' on ' + tf.getBackend());
console.log(JSON.stringify({ tensorflow: tf.backend().binding.TF_Version, gpu: tf.backend().isUsingGpuDevice }));`;

/** Runs a real operation in a process of its own: a binding that loads can still fail, or crash, in its first one. */
async function tryOut(workshop: Workshop): Promise<{ tensorflow: string; gpu: boolean }> {
  workshop.report('trying it out');
  let last = '';
  await workshop.run(process.execPath, ['-e', REAL_OP], {
    cwd: PACKAGE_ROOT,
    env: { ...environment, ...process.env },
    limit: 120,
    line: (line) => (last = line.startsWith('{') ? line : last),
  });
  return JSON.parse(last) as { tensorflow: string; gpu: boolean };
}

function describeLink(link: LinkRecord): string {
  const from = link.kind === 'upstream' ? "upstream's prebuilt library" : "the wheel's library";
  return `TensorFlow ${link.tensorflow} (${from}) on the ${link.gpu ? 'GPU' : 'CPU'}`;
}

/** Is there a binding file that Node could load? */
export function hasBinding(): boolean {
  const lib = path.join(TFJS_NODE, 'lib');
  return fs.existsSync(lib) && fs.readdirSync(lib).some((f) => fs.existsSync(path.join(lib, f, 'tfjs_binding.node')));
}

/** Links tfjs-node-gpu against the TensorFlow of `.venv`, else against upstream's download. */
export const engineStep: Step = {
  name: 'engine',
  doing: 'linking tfjs to TensorFlow',

  async done() {
    const link = readLink();
    if (!link || link.node !== nodeMajor() || !hasBinding()) return undefined;
    const venv = readVenv();
    const current = link.kind === 'wheel' ? link.venv === venv?.made : obstacle(venv) !== undefined;
    return current ? describeLink(link) : undefined;
  },

  async run(workshop) {
    const venv = readVenv();
    const before = readLink();
    let why = obstacle(venv);
    const record = { venv: venv?.made, node: nodeMajor() };
    const save = (link: LinkRecord) => writeFile(RECORD, `${toJson(link, 2)}\n`);
    // What failed before and has no reason to go better now is not tried again.
    if (why && before?.kind === 'none' && before.reason === why.reason) throw degraded(why);
    fs.rmSync(RECORD, { force: true });
    fs.rmSync(path.join(TFJS_NODE, 'lib'), { recursive: true, force: true });
    if (!why && venv) {
      try {
        await linkWheel(workshop, venv);
        const link: LinkRecord = { kind: 'wheel', ...(await tryOut(workshop)), ...record };
        save(link);
        return describeLink(link);
      } catch (error) {
        if (!(error instanceof CalmError)) throw error;
        why = { reason: `linking TensorFlow failed (${error.message})`, remedy: error.remedy ?? 'run this again' };
      }
    }
    if (!why) throw new CalmError('there is neither an environment nor a reason');
    try {
      await takeUpstream(workshop);
      const link: LinkRecord = { kind: 'upstream', ...(await tryOut(workshop)), ...record };
      save(link);
      return describeLink(link);
    } catch (error) {
      if (!(error instanceof CalmError)) throw error;
      // A binding that loads and then fails must not be found by the engine.
      fs.rmSync(path.join(TFJS_NODE, 'lib'), { recursive: true, force: true });
      save({ kind: 'none', reason: why.reason, ...record });
      throw degraded(why);
    }
  },
};

function degraded(why: { reason: string; remedy: string }): Degraded {
  return new Degraded(
    `tfjs runs without TensorFlow, several times slower: ${why.reason}, and upstream's prebuilt library is out of reach`,
    {
      remedy: why.remedy,
    },
  );
}

/** Does a real operation run, in a process of its own? For a diagnosis; takes a second or two. */
export function runsRealOp(): boolean {
  return (
    ask(process.execPath, ['-e', `process.chdir(${JSON.stringify(PACKAGE_ROOT)});${REAL_OP}`], {
      ...environment,
      ...process.env,
    }) !== undefined
  );
}
