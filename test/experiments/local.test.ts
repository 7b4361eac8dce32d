import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { Board } from '../../src/experiments/board';
import { runLocally, type LocalOptions } from '../../src/experiments/local';
import { runsOf, stubs, until, writeStubs, type Stub } from './stub';

const { at, command } = stubs();
const GIB = 2 ** 30;

async function run(out: string, ids: readonly string[], options: Partial<LocalOptions> = {}): Promise<Board> {
  const board = new Board(ids);
  const defaults = { parallel: 1, memory: 8 * GIB, retries: 0, command, expected: () => 0, tick: 50 };
  await runLocally(out, board, { ...defaults, ...options });
  return board;
}
const statuses = (board: Board) => Object.fromEntries([...board.states].map(([id, { status }]) => [id, status]));
const rowOf = (out: string, id: string) => path.join(out, 'points', id, 'row.json');

/** Sees how many points run at once. */
function watching(board: Board): { most: () => number } {
  let most = 0;
  board.onChange(() => (most = Math.max(most, board.with('running').length)));
  return { most: () => most };
}

describe('points on this machine', () => {
  it('run each in a process, and a failed one stops no other', async () => {
    const out = at('failing');
    const stub: Record<string, Stub> = { a: {}, b: { fails: 'no such luck' }, c: { dies: true }, d: {} };
    const board = await run(out, writeStubs(out, stub));
    expect(statuses(board)).toEqual({ a: 'done', b: 'failed', c: 'failed', d: 'done' });
    expect(board.get('b').note).toBe('no such luck');
    expect(board.get('c').note).toBe('its process was ended by SIGKILL');
    expect(fs.readFileSync(path.join(out, 'points/b/log.txt'), 'utf8')).toBe('begins b\ncalm: no such luck\n');
    // Again: only what is missing.
    await run(out, ['a', 'b', 'c', 'd']);
    expect(['a', 'b', 'c', 'd'].map((id) => runsOf(out, id))).toEqual([1, 2, 2, 1]);
    expect(fs.existsSync(path.join(out, 'points/a/claim.json'))).toBe(false);
  });

  it('are tried again as often as asked', async () => {
    const out = at('retried');
    const ids = writeStubs(out, { a: { fails: 'once', times: 1 }, b: { fails: 'always' } });
    const board = await run(out, ids, { retries: 2 });
    expect(statuses(board)).toEqual({ a: 'done', b: 'failed' });
    expect([runsOf(out, 'a'), runsOf(out, 'b')]).toEqual([2, 3]);
    expect(fs.existsSync(path.join(out, 'points/a/failure.json'))).toBe(false);
  });

  it('run as many at once as may, and as fit the memory they are expected to need', async () => {
    const out = at('parallel');
    const ids = writeStubs(out, Object.fromEntries([...'abcdef'].map((id) => [id, { ms: 250 }])));
    const go = async (options: Partial<LocalOptions>) => {
      for (const id of ids) fs.rmSync(rowOf(out, id), { force: true });
      const board = new Board(ids);
      const { most } = watching(board);
      await runLocally(out, board, {
        parallel: 9,
        memory: 8 * GIB,
        retries: 0,
        command,
        expected: () => 0,
        ...options,
      });
      expect(board.with('done')).toEqual(ids);
      return most();
    };
    expect(await go({ parallel: 3 })).toBe(3);
    expect(await go({ expected: () => 3.5 * GIB })).toBe(2);
    expect(await go({ expected: () => 99 * GIB })).toBe(1);
  });

  it('that outgrow the memory together go on one by one; one that does alone fails', async () => {
    const out = at('memory');
    const ids = writeStubs(out, { a: { ms: 900, holds: 300 }, b: { ms: 900, holds: 300 }, c: { ms: 900, holds: 900 } });
    const board = await run(out, ids, { parallel: 3, memory: 0.6 * GIB });
    expect(statuses(board)).toEqual({ a: 'done', b: 'done', c: 'failed' });
    expect(board.get('c').note).toBe('it needs more than the 0.6 GiB of --memory');
    expect(runsOf(out, 'a')).toBe(1);
  }, 20_000);

  it('stop when asked, and the rest is done the next time', async () => {
    const out = at('stopped');
    const ids = writeStubs(out, { a: {}, b: { ms: 60_000 }, c: {} });
    const stop = new AbortController();
    const going = run(out, ids, { signal: stop.signal });
    await until('b', () => runsOf(out, 'b') === 1);
    stop.abort();
    expect(statuses(await going)).toEqual({ a: 'done', b: 'waiting', c: 'waiting' });
    writeStubs(out, { b: {} });
    expect(statuses(await run(out, ids))).toEqual({ a: 'done', b: 'done', c: 'done' });
    expect(ids.map((id) => runsOf(out, id))).toEqual([1, 2, 1]);
  });

  it('say so when no process can be started', async () => {
    const out = at('nothing');
    const board = await run(out, writeStubs(out, { a: {} }), { command: [at('nowhere')] });
    expect(board.get('a').note).toMatch(/nowhere cannot be started: .*ENOENT/);
  });
});

describe('two sweeps in one folder', () => {
  it('share the points and run none twice', async () => {
    const out = at('shared');
    const ids = writeStubs(out, Object.fromEntries([...'abcdefgh'].map((id) => [id, { ms: 100 }])));
    const boards = await Promise.all([run(out, ids, { parallel: 2 }), run(out, [...ids].reverse(), { parallel: 2 })]);
    for (const board of boards) expect(board.with('done')).toHaveLength(8);
    expect(ids.map((id) => runsOf(out, id))).toEqual(ids.map(() => 1));
  });

  it('wait for a point whose sweep was killed but that goes on, and take up one that was killed', async () => {
    const out = at('orphans');
    const ids = writeStubs(out, { lives: { ms: 1500 }, killed: { ms: 60_000 } });
    // As a killed sweep leaves them: processes without a parent that knows of them.
    const orphan = (id: string): ChildProcess =>
      spawn(command[0]!, [command[1]!, path.join(out, 'points', id)], { stdio: 'ignore', detached: true });
    const [, killed] = [orphan('lives'), orphan('killed')];
    await until('both', () => ids.every((id) => runsOf(out, id) === 1));
    const going = run(out, ids, { parallel: 2 });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(ids.map((id) => runsOf(out, id))).toEqual([1, 1]);
    writeStubs(out, { killed: {} });
    killed.kill('SIGKILL');
    expect(statuses(await going)).toEqual({ lives: 'done', killed: 'done' });
    expect(ids.map((id) => runsOf(out, id))).toEqual([1, 2]);
  });
});
