import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll } from 'vitest';

export const SETUP = path.join(__dirname, '../../src/setup');

/** Loads one of set-up's plain CommonJS files. */
export function load<T>(file: string): T {
  return createRequire(__filename)(path.join(SETUP, file)) as T;
}

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => fs.rmSync(folder, { recursive: true, force: true })));

/** A folder that is gone when the test file ends. */
export function temporaryFolder(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-setup-'));
  folders.push(folder);
  return folder;
}
