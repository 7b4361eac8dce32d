import * as fs from 'node:fs';
import { clock, startProgress } from '../base/progress';

export type Status =
  | 'waiting'
  /** Given to a queue. */
  | 'queued'
  | 'running'
  /** Another sweep is at it. */
  | 'elsewhere'
  | 'done'
  | 'failed';

/** What is known of a point while a sweep runs. */
export interface State {
  status: Status;
  /** When it took this status, in ms since the epoch. */
  since: number;
  /** How often it was started. */
  tries: number;
  /** Seconds that it ran for, when it is over. */
  seconds?: number | undefined;
  /** Done before this sweep. */
  known?: boolean | undefined;
  /** Why it failed, or where it runs. */
  note?: string | undefined;
  /** What its process prints. */
  log?: string | undefined;
}

/** Every point's state, and who is told of changes. */
export class Board {
  readonly states: Map<string, State>;
  /** What the whole waits for, if anything. */
  remark = '';
  private readonly listeners: ((id: string, state: State) => void)[] = [];

  constructor(ids: readonly string[]) {
    this.states = new Map(ids.map((id) => [id, { status: 'waiting', since: Date.now(), tries: 0 }]));
  }

  get(id: string): State {
    return this.states.get(id)!;
  }

  change(id: string, status: Status, patch: Partial<State> = {}): void {
    const before = this.get(id);
    const since = before.status === status ? before.since : Date.now();
    const state = { ...before, note: undefined, ...patch, status, since };
    this.states.set(id, state);
    if (before.status !== status) for (const listen of this.listeners) listen(id, state);
  }

  onChange(listen: (id: string, state: State) => void): void {
    this.listeners.push(listen);
  }

  with(...statuses: readonly Status[]): string[] {
    return [...this.states].filter(([, { status }]) => statuses.includes(status)).map(([id]) => id);
  }
}

/** Shows a board until `stop`: a live table in a terminal, else a line for each point that ends. */
export function showBoard(board: Board, { table }: { table: boolean }): { stop(): void } {
  const total = board.states.size;
  const over = () => board.with('done', 'failed').length;
  if (!table) {
    const progress = startProgress('points', total);
    board.onChange((id, { status, note, known }) => {
      if (status !== 'done' && status !== 'failed') return;
      if (known) progress.add(1, true);
      else progress.update(over(), `${status === 'failed' ? 'failed: ' : ''}${id}${note ? ` (${note})` : ''}`);
    });
    return { stop: () => progress.stop(tally(board)) };
  }
  const started = Date.now();
  let height = 0;
  const draw = () => {
    const { columns = 80, rows = 24 } = process.stderr;
    const lines = drawBoard(board, { started, now: Date.now(), width: columns - 1, height: rows - 1 });
    process.stderr.write(`${height > 0 ? `\x1b[${height}A\r` : ''}\x1b[J${lines.join('\n')}\n`);
    height = lines.length;
  };
  draw();
  const timer = setInterval(draw, 1000);
  return {
    stop: () => {
      clearInterval(timer);
      draw();
    },
  };
}

function tally(board: Board): string {
  const counts = (['running', 'queued', 'elsewhere', 'waiting', 'failed'] as const).map(
    (status) => [status, board.with(status).length] as const,
  );
  return counts.flatMap(([status, n]) => (n > 0 ? [`${n} ${status}`] : [])).join(', ');
}

/** The lines of the live table: how far it is, what runs, what failed, and what came last, as many as fit. */
export function drawBoard(
  board: Board,
  { started, now, width, height }: { started: number; now: number; width: number; height: number },
): string[] {
  const seconds = (now - started) / 1000;
  const states = [...board.states].map(([id, state]) => ({ id, ...state }));
  const done = states.filter(({ status }) => status === 'done');
  const fresh = done.filter(({ known }) => !known).length;
  const open = states.filter(({ status }) => status !== 'done' && status !== 'failed').length;
  const left = fresh > 0 && open > 0 ? `, about ${clock((seconds / fresh) * open)} left` : '';
  const words = tally(board);
  const head = `${done.length}/${states.length} points done${words && `, ${words}`}, ${clock(seconds)}${left}`;
  const line = (mark: string, { id, since, seconds: ran, note }: (typeof states)[number], text = note) =>
    `${mark.padEnd(9)} ${(ran === undefined ? clock((now - since) / 1000) : clock(ran)).padStart(7)}  ${id}${text ? `  ${text}` : ''}`;
  const busy = states
    .filter(({ status }) => status === 'running' || status === 'elsewhere')
    .map((state) => line(state.status, state, state.note ?? lastLine(state.log)));
  const failed = states.filter(({ status }) => status === 'failed').map((state) => line('failed', state));
  const recent = done.filter(({ known }) => !known).sort((a, b) => b.since - a.since).map((state) => line('done', state)); // prettier-ignore
  const lines = [head, ...(board.remark ? [board.remark] : []), ...busy, ...failed, ...recent];
  const cut = lines.length > height ? [...lines.slice(0, height - 1), `… ${lines.length - height + 1} more`] : lines;
  return cut.map((text) => (text.length > width ? `${text.slice(0, width - 1)}…` : text));
}

/** What TensorFlow says of itself. */
const ENGINE = /^(WARNING: All log messages before absl|[IWE]\d{4} \d)/;

/** What a process has said last: enough of the end of its log is read. */
export function lastLine(log: string | undefined, bytes = 2000): string {
  if (log === undefined) return '';
  let descriptor: number | undefined;
  try {
    descriptor = fs.openSync(log, 'r');
    const size = fs.fstatSync(descriptor).size;
    const buffer = Buffer.alloc(Math.min(bytes, size));
    fs.readSync(descriptor, buffer, 0, buffer.length, size - buffer.length);
    return (
      buffer
        .toString()
        .split(/[\r\n]+/)
        .map((text) => text.trim())
        .filter((text) => text !== '' && !ENGINE.test(text))
        .at(-1) ?? ''
    );
  } catch {
    return ''; // not written yet
  } finally {
    if (descriptor !== undefined) fs.closeSync(descriptor);
  }
}
