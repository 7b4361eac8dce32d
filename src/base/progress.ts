import { SingleBar } from 'cli-progress';
import { systemCode } from './errors';
import { notebookText } from './notebook';

/** Where progress is shown: a bar in a terminal, an updating line in a notebook cell, a line now and then in a log. */
export interface Progress {
  /** `done` of `total` units; `note` is shown at the end of the line. */
  update(done: number, note?: string): void;
  /** So many more are done; `known` when they cost no time, which says nothing of those to come. */
  add(units: number, known?: boolean): void;
  /** Takes the bar away, leaving one line that says how long it took. */
  stop(note?: string): void;
}

interface Line {
  write(text: string): void;
  end(text: string): void;
}

/** `1:05` or `2:03:04`. */
export function clock(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  const two = (n: number) => String(n).padStart(2, '0');
  const h = Math.floor(s / 3600);
  return h > 0 ? `${h}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

let quiet = false;
/** Turns all progress off (tests, `--quiet`). */
export function setQuiet(value: boolean): void {
  quiet = value;
}

/** Lets the event loop turn: what was sent to a notebook gets out, for which its socket needs a moment. */
export const breathe = () =>
  new Promise<void>((resolve) => {
    if (process.env['CALM_NOTEBOOK']) setTimeout(resolve, 50);
    else setImmediate(resolve);
  });

/**
 * The kernel takes some 500 messages while the event loop stands still, as it does while a model computes; a further one
 * throws, in the middle of whatever shows progress. So lines come twice as seldom with every 64 of them, at most 448,
 * until the loop has turned, and one that cannot be sent is dropped.
 */
const sends = {
  count: 0,
  waiting: false,
  get every() {
    return this.count < 448 ? 500 * 2 ** Math.floor(this.count / 64) : Infinity;
  },
  send(write: () => void) {
    this.count++;
    if (!this.waiting) {
      this.waiting = true;
      setImmediate(() => Object.assign(this, { count: 0, waiting: false })).unref();
    }
    try {
      write();
    } catch (error) {
      if (systemCode(error) !== 'EBUSY') throw error;
    }
  },
};

function notebookLine(): Line | undefined {
  const place = process.env['CALM_NOTEBOOK'] ? notebookText() : undefined;
  if (!place) return undefined;
  const show = (text: string) => sends.send(() => place(text));
  return { write: show, end: show };
}

/** Starts a progress display of `total` units. Everything goes to stderr (or the cell), never to stdout. */
export function startProgress(label: string, total: number): Progress {
  if (quiet) return { update: () => undefined, add: () => undefined, stop: () => undefined };
  const started = Date.now();
  const seconds = () => (Date.now() - started) / 1000;
  let [reached, free] = [0, 0];
  const left = (done: number) => (done > free ? clock((seconds() * (total - done)) / (done - free)) : undefined);
  const text = (done: number, note: string) =>
    `${label} ${done}/${total}, ${clock(seconds())}` +
    (free > 0 ? `, ${free} known` : '') +
    (left(done) && done < total ? `, ${left(done)} left` : '') +
    (note && `, ${note}`);
  const counting = (update: Progress['update']): Pick<Progress, 'update' | 'add'> => ({
    update: (done, note) => update((reached = done), note),
    add: (units, known = false) => {
      if (known) free += units;
      update((reached += units));
    },
  });

  const cell = notebookLine();
  if (!cell && process.stderr.isTTY) {
    const bar = new SingleBar({
      stream: process.stderr,
      format: `${label} [{bar}] {value}/{total}  {left} left  {note}`,
      clearOnComplete: true,
    });
    bar.start(total, 0, { left: '?', note: '' });
    return {
      ...counting((done, note = '') => bar.update(done, { left: left(done) ?? '?', note })),
      stop: (note = '') => {
        bar.stop();
        process.stderr.write(`${text(total, note)}\n`);
      },
    };
  }
  const line: Line = cell ?? {
    write: (t) => process.stderr.write(`${t}\n`),
    end: (t) => process.stderr.write(`${t}\n`),
  };
  const every = () => (cell ? sends.every : 10_000);
  let last = Date.now() - (cell ? every() : 0);
  return {
    ...counting((done, note = '') => {
      if (Date.now() - last < every()) return;
      last = Date.now();
      line.write(text(done, note));
    }),
    stop: (note = '') => line.end(text(total, note)),
  };
}
