import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileError } from '../base/files';
import environment from '../setup/environment.json';
import type { Board } from './board';
import { holderOf } from './claim';
import { BUSY, failureOf, FILES, isDone, pointFolder } from './perform';

export interface LocalOptions {
  /** Processes at once, at most. */
  parallel: number;
  /** Bytes that all processes together may hold. */
  memory: number;
  /** Times that a failed point is started again. */
  retries: number;
  /** The command of a point's process; its folder is added. */
  command: readonly string[];
  /** Bytes that a point is expected to need, from what is known when it is about to start. */
  expected: (id: string) => number;
  signal?: AbortSignal | undefined;
  /** ms between looks at memory and at points that another sweep has. */
  tick?: number;
}

interface Running {
  child: ChildProcess;
  started: number;
  /** Bytes: the largest of what was expected and what was seen. */
  needs: number;
  /** Ended by us for the memory it took, together with others or by itself. */
  evicted?: 'crowded' | 'alone';
}

/**
 * Runs points in processes of their own on this machine, in order, as many at once as `parallel` and `memory` allow (one
 * always may). Processes that together outgrow the bound lose the youngest, which is started again when there is room;
 * one that outgrows it alone fails. A failed point stops no other. Points that another sweep is at are left to it, and
 * taken up when it gives them up.
 *
 * Returns when every point is done or has failed, or, once `signal` is aborted, when the processes have ended.
 */
export async function runLocally(out: string, board: Board, options: LocalOptions): Promise<void> {
  const { parallel, memory, retries, command, expected, signal, tick = 1000 } = options;
  const running = new Map<string, Running>();
  const learnt = new Map<string, number>();
  let wake: () => void = () => undefined;
  const need = (id: string) => Math.max(expected(id), learnt.get(id) ?? 0);

  const start = (id: string) => {
    const folder = pointFolder(out, id);
    const log = path.join(folder, FILES.log);
    fs.rmSync(path.join(folder, FILES.failure), { force: true });
    let descriptor: number;
    try {
      descriptor = fs.openSync(log, 'a');
    } catch (error) {
      throw fileError(error, log, 'write');
    }
    const [program, ...words] = command;
    const child = spawn(program!, [...words, folder], {
      stdio: ['ignore', descriptor, descriptor],
      env: { ...environment, ...process.env },
    });
    fs.closeSync(descriptor);
    const entry: Running = { child, started: Date.now(), needs: need(id) };
    running.set(id, entry);
    board.change(id, 'running', { tries: board.get(id).tries + 1, log });
    const ended = (code: number | null, why: string | undefined) => {
      if (!running.delete(id)) return;
      settle(id, entry, code, why);
      wake();
    };
    child.on('error', (error) => ended(null, `${program} cannot be started: ${error.message}`));
    child.on('exit', (code, by) => ended(code, by ? `its process was ended by ${by}` : undefined));
  };

  const settle = (id: string, { started, evicted }: Running, code: number | null, why: string | undefined) => {
    const folder = pointFolder(out, id);
    const seconds = (Date.now() - started) / 1000;
    const { tries } = board.get(id);
    if (isDone(folder)) return board.change(id, 'done', { seconds });
    if (code === BUSY) return board.change(id, 'elsewhere', { tries: tries - 1 });
    if (evicted === 'crowded') return board.change(id, 'waiting', { tries: tries - 1 });
    if (signal?.aborted) return board.change(id, 'waiting');
    const tooLarge = evicted === 'alone' ? `it needs more than the ${gib(memory)} GiB of --memory` : undefined;
    const note = tooLarge ?? failureOf(folder)?.line ?? why ?? `its process ended with exit code ${code}`;
    if (tries <= retries && !evicted) board.change(id, 'waiting');
    else board.change(id, 'failed', { seconds, note });
  };

  /** Starts what there is room for. */
  const fill = () => {
    for (const id of board.with('waiting', 'elsewhere')) {
      const folder = pointFolder(out, id);
      if (isDone(folder)) {
        board.change(id, 'done', { known: true });
      } else if (holderOf(path.join(folder, FILES.claim))) {
        board.change(id, 'elsewhere', { note: 'another sweep is at it' });
      } else {
        const taken = [...running.values()].reduce((sum, { needs }) => sum + needs, 0);
        if (running.size >= parallel || (running.size > 0 && taken + need(id) > memory)) return;
        start(id);
      }
    }
  };

  /** Looks at what the processes hold, and ends the youngest when it is too much. */
  const weigh = () => {
    let total = 0;
    for (const [id, entry] of running) {
      const held = residentBytes(entry.child.pid);
      total += held;
      entry.needs = Math.max(entry.needs, held);
      learnt.set(id, Math.max(learnt.get(id) ?? 0, held));
    }
    const youngest = [...running.values()].at(-1);
    if (total <= memory || !youngest || youngest.evicted) return;
    youngest.evicted = running.size > 1 ? 'crowded' : 'alone';
    youngest.child.kill('SIGKILL');
  };

  const stop = () => {
    for (const { child } of running.values()) child.kill('SIGTERM');
    wake();
  };
  signal?.addEventListener('abort', stop);
  try {
    for (;;) {
      if (!signal?.aborted) fill();
      if (running.size === 0 && (signal?.aborted || board.with('waiting', 'elsewhere').length === 0)) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, tick);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      weigh();
    }
  } finally {
    signal?.removeEventListener('abort', stop);
    for (const { child } of running.values()) child.kill('SIGKILL'); // an error of our own
  }
}

const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1).replace(/\.0$/, '');

/** What a process holds in memory now; 0 where this system does not say. */
function residentBytes(pid: number | undefined): number {
  try {
    return 1024 * Number(/^VmRSS:\s*(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
