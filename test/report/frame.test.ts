import { describe, expect, it, vi } from 'vitest';
import { frame, type Row } from '../../src/report';
import { RESULTS } from './sample';

describe('frame', () => {
  it('keeps -Infinity and a string that first comes in row 600 (case D-4)', () => {
    const rows: Row[] = Array.from({ length: 700 }, (_, i) => ({
      logprob: i === 1 ? -Infinity : 1,
      name: i < 600 ? null : 'late',
      mixed: i < 600 ? i : 'late',
    }));
    const df = frame(rows);
    expect(df.shape).toEqual([700, 3]);
    expect(df.ctypes.values).toEqual(['float32', 'string', 'string']);
    expect(df.column('logprob').values.slice(0, 2)).toEqual([1, -Infinity]);
    expect(df.column('name').values[600]).toBe('late');
    expect(df.column('mixed').values.slice(599, 601)).toEqual([599, 'late']);
  });

  it('types a column by all of its values and fills a missing number with NaN', () => {
    const df = frame([
      { i: 1, f: 0.1, b: true, s: 'NA', g: null },
      { i: 2, f: null, b: false, s: null, h: 3 },
    ]);
    expect(df.columns).toEqual(['i', 'f', 'b', 's', 'g', 'h']);
    expect(df.ctypes.values).toEqual(['int32', 'float32', 'boolean', 'string', 'float32', 'float32']);
    expect(df.values).toEqual([
      [1, 0.1, true, 'NA', NaN, NaN],
      [2, NaN, false, null, NaN, 3],
    ]);
  });

  it('takes results and prints them whole', () => {
    const df = frame(RESULTS);
    expect(df.column('accuracy').values).toEqual([0.5233333, 0.5233333]);
    const log = vi.spyOn(console, 'log').mockImplementation(() => undefined);
    df.print();
    const printed = log.mock.calls.flat().join('\n');
    log.mockRestore();
    for (const text of ['conf_ece', '0.31234567', 'Infinity', 'accuracy_hi']) expect(printed).toContain(text);
  });

  it('can be empty', () => {
    expect(frame([]).shape).toEqual([0, 0]);
  });
});
