import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import { describe, expect, it } from 'vitest';
import { claim, discardClaim, holderOf } from '../../src/experiments/claim';
import { stubs } from './stub';

const { at } = stubs();

/** Processes that claim a file at about the same moment, and live until all have tried. @returns how many got it */
async function race(file: string, processes: number): Promise<number> {
  const start = Date.now() + 600;
  const program = `
    const { claim } = require(${JSON.stringify(at('stub/experiments/claim.js'))});
    while (Date.now() < ${start});
    console.log(claim(${JSON.stringify(file)}) ? 'got it' : 'not');
    process.stdin.on('end', () => process.exit()).resume();`;
  const children = Array.from({ length: processes }, () => spawn(process.execPath, ['-e', program]));
  const said = await Promise.all(
    children.map(
      (child) => new Promise<string>((resolve) => child.stdout.once('data', (text: Buffer) => resolve(String(text)))),
    ),
  );
  await Promise.all(
    children.map((child) => {
      const ended = new Promise((resolve) => child.on('exit', resolve));
      child.stdin.end();
      return ended;
    }),
  );
  expect(said.every((text) => text === 'got it\n' || text === 'not\n')).toBe(true);
  return said.filter((text) => text === 'got it\n').length;
}

describe('a claim', () => {
  it('is one process’s until it is released', () => {
    const file = at('one');
    const held = claim(file)!;
    expect(holderOf(file)).toMatchObject({ pid: process.pid, host: os.hostname() });
    expect(claim(file)).toBeUndefined();
    held.release();
    expect(holderOf(file)).toBeUndefined();
    claim(file)!.release();
    expect(fs.readdirSync(at('.')).filter((name) => name.startsWith('one'))).toEqual([]);
  });

  it('is got by one of many', async () => {
    expect(await race(at('many'), 6)).toBe(1);
  });

  it('of a dead process is taken over, by one of many', async () => {
    fs.writeFileSync(at('dead'), JSON.stringify({ host: os.hostname(), pid: process.pid, start: '1', nonce: 'old' }));
    expect(holderOf(at('dead'))).toBeUndefined();
    expect(await race(at('dead'), 6)).toBe(1);
  });

  it('that the machine has emptied is nobody’s', () => {
    fs.writeFileSync(at('empty'), '');
    claim(at('empty'))!.release();
  });

  it('of another host holds as long as it shows that it lives', () => {
    fs.writeFileSync(at('far'), JSON.stringify({ host: 'far', pid: 1, start: '1', nonce: 'far', job: '7_1' }));
    expect(holderOf(at('far'))).toMatchObject({ host: 'far' });
    expect(claim(at('far'))).toBeUndefined();
    const old = new Date(Date.now() - 10 * 60_000);
    fs.utimesSync(at('far'), old, old);
    claim(at('far'))!.release();
  });

  it('of a job that Slurm has ended is discarded, and taken by the same job started again', () => {
    const holder = { host: 'far', pid: 1, start: '1', nonce: 'far', job: '7_1' };
    fs.writeFileSync(at('job'), JSON.stringify(holder));
    expect(discardClaim(at('job'), { ...holder, nonce: 'another' })).toBe(false);
    expect(fs.existsSync(at('job'))).toBe(true);
    expect(discardClaim(at('job'), holder)).toBe(true);
    expect(fs.existsSync(at('job'))).toBe(false);
    fs.writeFileSync(at('job'), JSON.stringify(holder));
    Object.assign(process.env, { SLURM_ARRAY_JOB_ID: '7', SLURM_ARRAY_TASK_ID: '1' });
    try {
      claim(at('job'))!.release();
    } finally {
      delete process.env['SLURM_ARRAY_JOB_ID'];
      delete process.env['SLURM_ARRAY_TASK_ID'];
    }
  });

  it('cannot be made where nothing can be written', () => {
    expect(() => claim(at('no/such/folder'))).toThrow(/cannot write .*folder: does not exist/);
  });
});
