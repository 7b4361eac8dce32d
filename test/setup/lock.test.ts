import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { load, temporaryFolder } from './tools';

interface Lock {
  watch(child: ChildProcess): void;
  release(): void;
}
const { acquire, startTime } = load<{
  acquire: (file: string, say: (message: string) => void) => Promise<Lock>;
  startTime: (pid: number) => string | undefined;
}>('lock.cjs');

const silent = () => undefined;
const newFile = () => path.join(temporaryFolder(), 'setup.lock');
const ended = (child: ChildProcess) => new Promise((resolve) => child.once('exit', (_code, signal) => resolve(signal)));
/** A process that would run for a minute. */
const sleeper = () =>
  spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000)'], { stdio: 'ignore', detached: true });

describe('the set-up lock', () => {
  it('is there while held, names its holder, and is gone afterwards', async () => {
    const file = newFile();
    const lock = await acquire(file, silent);
    expect(JSON.parse(fs.readFileSync(file, 'utf8'))).toEqual({
      owner: { pid: process.pid, start: startTime(process.pid) },
    });
    lock.release();
    expect(fs.readdirSync(path.dirname(file))).toEqual([]);
  });

  it('makes a second set-up wait for the first, and says so once', async () => {
    const file = newFile();
    const said: string[] = [];
    const first = await acquire(file, silent);
    let got = false;
    const second = acquire(file, (message) => said.push(message)).then((lock) => {
      got = true;
      return lock;
    });
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(got).toBe(false);
    expect(said).toEqual([`another set-up is running here (process ${process.pid}), waiting for it`]);
    first.release();
    (await second).release();
    expect(got).toBe(true);
  });

  it.each([
    ['its holder has ended', { owner: { pid: 999_999_999, start: '1' } }],
    ["its holder's process id belongs to another process now", { owner: { pid: process.pid, start: 'long ago' } }],
    ['it holds nothing readable', '{"owner":{"pi'],
  ])('is taken over when %s', async (_why, content) => {
    const file = newFile();
    fs.writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
    const lock = await acquire(file, silent);
    expect(fs.readFileSync(file, 'utf8')).toContain(`"pid":${process.pid}`);
    lock.release();
  });

  it('ends the command that a killed set-up left running before it goes on', async () => {
    const file = newFile();
    const orphan = sleeper();
    const end = ended(orphan);
    const child = { pid: orphan.pid, start: startTime(orphan.pid ?? 0) };
    fs.writeFileSync(file, JSON.stringify({ owner: { pid: 999_999_999, start: '1' }, child }));
    const lock = await acquire(file, silent);
    lock.release();
    expect(await end).toBe('SIGKILL');
  });

  it('notes the running command, and ends it on release', async () => {
    const file = newFile();
    const lock = await acquire(file, silent);
    const child = sleeper();
    const end = ended(child);
    lock.watch(child);
    expect(JSON.parse(fs.readFileSync(file, 'utf8'))).toMatchObject({ child: { pid: child.pid } });
    lock.release();
    expect(await end).toBe('SIGKILL');
  });

  it('is free again when its holder was killed outright', async () => {
    const file = newFile();
    const script = `require(${JSON.stringify(path.join(__dirname, '../../src/setup/lock.cjs'))})
      .acquire(${JSON.stringify(file)}, () => {}).then(() => { console.log('held'); setTimeout(() => {}, 60000); });`;
    const holder = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => holder.stdout.once('data', resolve));
    const end = ended(holder);
    holder.kill('SIGKILL');
    await end;
    expect(fs.existsSync(file)).toBe(true);
    (await acquire(file, silent)).release();
    expect(fs.existsSync(file)).toBe(false);
  });
});
