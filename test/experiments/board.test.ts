import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { Board, drawBoard, lastLine } from '../../src/experiments/board';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-board-'));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

it('shows what runs, what failed and what came last, within its size', () => {
  const board = new Board(['a', 'b', 'c', 'd', 'e']);
  const log = path.join(folder, 'log.txt');
  fs.writeFileSync(log, 'loading\rtraining calm 3/8\n');
  board.change('a', 'done', { known: true });
  board.change('b', 'done', { seconds: 61 });
  board.change('c', 'running', { log });
  board.change('d', 'failed', { seconds: 2, note: 'out of luck' });
  const now = board.get('c').since + 5000;
  const draw = (width: number, height: number) => drawBoard(board, { started: now - 60_000, now, width, height });
  expect(draw(80, 20)).toEqual([
    '2/5 points done, 1 running, 1 waiting, 1 failed, 1:00, about 2:00 left',
    'running      0:05  c  training calm 3/8',
    'failed       0:02  d  out of luck',
    'done         1:01  b',
  ]);
  expect(draw(30, 3)).toEqual(['2/5 points done, 1 running, 1…', 'running      0:05  c  trainin…', '… 2 more']);
  expect(lastLine(path.join(log, 'gone'))).toBe('');
});

it('tells of changes, not of repetitions', () => {
  const board = new Board(['a']);
  const seen: string[] = [];
  board.onChange((id, { status }) => seen.push(`${id} ${status}`));
  board.change('a', 'running');
  board.change('a', 'running', { note: 'still' });
  board.change('a', 'done');
  expect(seen).toEqual(['a running', 'a done']);
});
