import * as fs from 'node:fs';
import * as path from 'node:path';
import { PACKAGE_ROOT } from '../base/presets';

const windows = process.platform === 'win32';

/** Where set-up puts things, all inside the project's folder and ignored by git. */
export const VENV = path.join(PACKAGE_ROOT, '.venv');
export const LOGS = path.join(PACKAGE_ROOT, '.cache', 'logs');
export const TFJS_NODE = path.join(PACKAGE_ROOT, 'node_modules', '@tensorflow', 'tfjs-node-gpu');
export const KERNEL = path.join(VENV, 'share', 'jupyter', 'kernels', 'tslab');

/** A command of the project's Python environment. */
export function venvCommand(name: 'python' | 'jupyter'): string {
  return windows ? path.join(VENV, 'Scripts', `${name}.exe`) : path.join(VENV, 'bin', name);
}

/** PATH without the project's own environment, which set-up may be about to replace. */
export function outsidePath(): string {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter);
  return folders.filter((folder) => !path.resolve(folder).startsWith(VENV)).join(path.delimiter);
}

/** The first of `names` on PATH. */
export function which(names: readonly string[]): string | undefined {
  const endings = windows ? ['.exe', '.cmd', ''] : [''];
  for (const name of names) {
    for (const folder of (process.env['PATH'] ?? '').split(path.delimiter)) {
      const found = endings.map((e) => path.join(folder, name + e)).find((file) => fs.existsSync(file));
      if (found) return found;
    }
  }
  return undefined;
}
