import { spawnSync } from 'node:child_process';
import * as path from 'node:path';

const ROOT = path.join(__dirname, '..');

/** Lets Node require the project's TypeScript as it stands, so a child process needs no build. */
const REGISTER = `
  const ts = require('typescript');
  const compilerOptions = { module: ts.ModuleKind.Node16, target: ts.ScriptTarget.ES2022, esModuleInterop: true };
  require.extensions['.ts'] = (module, file) =>
    module._compile(ts.transpileModule(require('fs').readFileSync(file, 'utf8'), { compilerOptions }).outputText, file);
`;

/** Runs JavaScript in a Node process of its own, in the project's folder; it may require the project's `.ts` files. */
export function runChild(
  script: string,
  { env = {}, shell }: { env?: NodeJS.ProcessEnv; shell?: string } = {},
): { status: number | null; stdout: string; stderr: string } {
  const node = [process.execPath, '-e', REGISTER + script];
  const [command, ...args] = shell ? ['sh', '-c', `${shell}; exec "$0" "$@"`, ...node] : node;
  return spawnSync(command!, args, { cwd: ROOT, encoding: 'utf8', env: { ...process.env, ...env } });
}
