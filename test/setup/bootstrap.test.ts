import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { load, SETUP, temporaryFolder } from './tools';

const { nodeProblem } = load<{ nodeProblem: (version: string) => string | undefined }>('node.cjs');
const { installed } = load<{ installed: (folder: string) => boolean }>('bootstrap.cjs');

describe('the Node version', () => {
  it.each(['20.19.0', '20.20.2', '21.0.0', '22.11.0', '22.99.1'])('%s is accepted', (version) => {
    expect(nodeProblem(version)).toBeUndefined();
  });

  it.each(['18.20.4', '20.18.3', '23.0.0', '24.1.0', '8.17.0'])('%s is refused with a remedy', (version) => {
    expect(nodeProblem(version)).toMatch(
      new RegExp(`20\\.19 or later and below 23, this is ${version}; install Node 22`),
    );
  });

  it('refuses before anything else, in one line, with exit code 1', () => {
    const script = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '24.1.0' } });
      require(${JSON.stringify(path.join(SETUP, 'bootstrap.cjs'))});`;
    const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8' });
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(stderr).toMatch(/this is 24\.1\.0/);
  });

  it('names the verbs it knows', () => {
    const { status, stderr } = spawnSync(process.execPath, [path.join(SETUP, 'bootstrap.cjs'), 'strat'], {
      encoding: 'utf8',
    });
    expect(status).toBe(2);
    expect(stderr).toMatch(/"start" and "test", not "strat"/);
  });
});

describe('whether the locked packages are installed', () => {
  const locked = {
    '': { name: 'x', version: '1.0.0' },
    'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
    'node_modules/self': { resolved: '', link: true },
    'node_modules/other-platform': { version: '2.0.0', integrity: 'sha512-o', optional: true },
  };
  function folder(found: object | string | undefined): string {
    const root = temporaryFolder();
    fs.writeFileSync(path.join(root, 'package-lock.json'), JSON.stringify({ packages: locked }));
    fs.mkdirSync(path.join(root, 'node_modules'));
    const text = typeof found === 'string' ? found : JSON.stringify({ packages: found });
    if (found) fs.writeFileSync(path.join(root, 'node_modules', '.package-lock.json'), text);
    return root;
  }
  const whole = { 'node_modules/a': locked['node_modules/a'], 'node_modules/self': locked['node_modules/self'] };

  it('says yes when every package that this platform needs is there', () => {
    expect(installed(folder(whole))).toBe(true);
  });

  it.each([
    ['npm did not finish', undefined],
    ['a package is missing', { 'node_modules/self': whole['node_modules/self'] }],
    ['a version is older than the lock', { ...whole, 'node_modules/a': { version: '0.9.0', integrity: 'sha512-a' } }],
    ['the contents differ', { ...whole, 'node_modules/a': { version: '1.0.0', integrity: 'sha512-b' } }],
    ["npm's record is half written", '{"packages": {"node_modules/a"'],
  ])('says no when %s', (_why, found) => {
    expect(installed(folder(found))).toBe(false);
  });
});
