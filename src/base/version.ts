import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { PACKAGE_ROOT } from './presets';

let version: string | undefined;

/** The package's version and, in a checkout, the commit it stands on: `0.1.0+1a2b3c4` (`-dirty` with changes). */
export function codeVersion(): string {
  if (version !== undefined) return version;
  const json = JSON.parse(fs.readFileSync(path.join(PACKAGE_ROOT, 'package.json'), 'utf8')) as { version: string };
  version = json.version;
  if (fs.existsSync(path.join(PACKAGE_ROOT, '.git'))) {
    try {
      const described = execFileSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {
        cwd: PACKAGE_ROOT,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      version += `+${described.trim()}`;
    } catch {
      // no git, or no commit yet: the version number is all there is
    }
  }
  return version;
}
