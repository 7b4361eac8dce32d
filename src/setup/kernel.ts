import * as fs from 'node:fs';
import * as path from 'node:path';
import { toJson, writeFile } from '../base/files';
import { PACKAGE_ROOT } from '../base/presets';
import environment from './environment.json';
import { KERNEL } from './paths';
import { readVenv } from './python';
import { Degraded, type Step } from './steps';

const FILE = path.join(KERNEL, 'kernel.json');

/**
 * The kernel that notebooks run in: this Node and the project's own tslab by absolute path, whatever is on PATH, with
 * the memory settings in place before TensorFlow starts.
 */
export function kernelSpec() {
  return {
    argv: [
      process.execPath,
      path.join(PACKAGE_ROOT, 'node_modules', 'tslab', 'bin', 'tslab'),
      'kernel',
      '--config-path',
      '{connection_file}',
    ],
    display_name: 'calm-lab (TypeScript)',
    language: 'typescript',
    env: { ...environment, CALM_NOTEBOOK: '1' },
  };
}

/** Is the installed spec the one that is wanted? */
export function kernelInstalled(file = FILE): boolean {
  try {
    return fs.readFileSync(file, 'utf8') === toJson(kernelSpec(), 2);
  } catch {
    return false;
  }
}

/** The tslab kernel, inside `.venv`, so that the user's own Jupyter folders stay as they are. */
export const kernelStep: Step = {
  name: 'kernel',
  doing: 'installing the notebook kernel',

  async done() {
    return readVenv() && kernelInstalled() ? `"${kernelSpec().display_name}" for Jupyter` : undefined;
  },

  async run() {
    if (!readVenv())
      throw new Degraded('there is no JupyterLab to install it in', { remedy: 'see the line about Python' });
    writeFile(FILE, toJson(kernelSpec(), 2));
    return `"${kernelSpec().display_name}" for Jupyter`;
  },
};
