import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { SETUP, temporaryFolder } from './tools';

/** A project folder with the launcher and, where given, a command line that is built. */
function project(main?: string): string {
  const root = temporaryFolder();
  fs.mkdirSync(path.join(root, 'src/setup'), { recursive: true });
  fs.mkdirSync(path.join(root, '.build/cli'), { recursive: true });
  for (const file of ['calm.cjs', 'node.cjs', 'environment.json']) {
    fs.copyFileSync(path.join(SETUP, file), path.join(root, 'src/setup', file));
  }
  if (main) fs.writeFileSync(path.join(root, '.build/cli/main.js'), main);
  return path.join(root, 'src/setup/calm.cjs');
}

describe('the calm command', () => {
  it('says what to do before it is built', () => {
    const { status, stderr } = spawnSync(process.execPath, [project(), 'doctor'], { encoding: 'utf8' });
    expect(status).toBe(1);
    expect(stderr).toBe('calm is not built yet; run "npm start" first\n');
  });

  it('passes arguments, the memory settings and the exit code on; the user may override a setting', () => {
    const main = 'console.log(JSON.stringify([process.argv.slice(2), process.env])); process.exitCode = 2;';
    const env = {
      ...process.env,
      MALLOC_TOP_PAD_: '1',
      MALLOC_TRIM_THRESHOLD_: undefined,
      TF_CPP_MIN_LOG_LEVEL: undefined,
    };
    const { status, stdout } = spawnSync(process.execPath, [project(main), 'eval', '--model', 'a b'], {
      encoding: 'utf8',
      env,
    });
    const [args, seen] = JSON.parse(stdout) as [string[], Record<string, string>];
    expect(status).toBe(2);
    expect(args).toEqual(['eval', '--model', 'a b']);
    expect(seen).toMatchObject({
      MALLOC_TOP_PAD_: '1',
      MALLOC_TRIM_THRESHOLD_: '4294967296',
      TF_CPP_MIN_LOG_LEVEL: '2',
    });
  });

  it('forwards a signal and ends as its child does', async () => {
    const main = `process.on('SIGTERM', () => { console.log('tidied'); process.exit(7); }); console.log('up'); setInterval(() => {}, 1000);`;
    const calm = spawn(process.execPath, [project(main)], { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    calm.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      if (out === 'up\n') calm.kill('SIGTERM');
    });
    const code = await new Promise((resolve) => calm.on('close', resolve));
    expect(out).toBe('up\ntidied\n');
    expect(code).toBe(7);
  });
});
