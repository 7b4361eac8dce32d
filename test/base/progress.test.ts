import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { clock, setQuiet, startProgress } from '../../src/base/progress';

describe('clock', () => {
  it.each([
    [0, '0:00'],
    [65, '1:05'],
    [59.6, '1:00'],
    [3599, '59:59'],
    [7384, '2:03:04'],
    [-3, '0:00'],
  ])('%d s is %s', (seconds, text) => expect(clock(seconds)).toBe(text));
});

// Vitest runs tests in a child process whose stderr is a pipe.
describe('startProgress where stderr is not a terminal', () => {
  let written: string[];

  beforeEach(() => {
    vi.useFakeTimers({ now: 0 });
    vi.stubEnv('CALM_NOTEBOOK', undefined);
    written = [];
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
    vi.spyOn(process.stdout, 'write').mockImplementation(() => {
      throw new Error('progress must not go to stdout');
    });
  });
  afterEach(() => {
    setQuiet(false);
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
    vi.useRealTimers();
  });

  it('writes a line every ten seconds with the time left, and one at the end', () => {
    const progress = startProgress('scoring', 100);
    for (let done = 1; done <= 25; done++) {
      vi.advanceTimersByTime(1000);
      progress.update(done, 'arc');
    }
    progress.stop();
    expect(written).toEqual([
      'scoring 10/100, 0:10, 1:30 left, arc\n',
      'scoring 20/100, 0:20, 1:20 left, arc\n',
      'scoring 100/100, 0:25\n',
    ]);
  });

  it('counts what is added, and expects no more of what cost nothing', () => {
    const progress = startProgress('scoring', 100);
    progress.add(60, true);
    for (let done = 1; done <= 10; done++) {
      vi.advanceTimersByTime(1000);
      progress.add(1);
    }
    expect(written).toEqual(['scoring 70/100, 0:10, 60 known, 0:30 left\n']);
  });

  it('says nothing of the time left before anything is done', () => {
    const progress = startProgress('loading', 3);
    vi.advanceTimersByTime(10_000);
    progress.update(0);
    expect(written).toEqual(['loading 0/3, 0:10\n']);
  });

  it('writes nothing when quiet', () => {
    setQuiet(true);
    const progress = startProgress('loading', 3);
    vi.advanceTimersByTime(60_000);
    progress.update(1);
    progress.stop('done');
    expect(written).toEqual([]);
  });
});
