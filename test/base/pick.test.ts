import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors';
import { pick, unknownName } from '../../src/base/pick';

const table = { temperature: 1, supportcal: 2, calm: 3 };

describe('pick', () => {
  it('finds what is there', () => {
    expect(pick('method', 'supportcal', table)).toBe(2);
  });

  it('does not find what every object inherits', () => {
    for (const name of ['constructor', 'toString', '__proto__']) {
      expect(() => pick('method', name, table)).toThrow(`unknown method "${name}"`);
    }
  });
});

describe('unknownName', () => {
  it.each([
    ['temprature', 'did you mean temperature?'], // a letter lost
    ['SUPPORTCAL', 'did you mean supportcal?'], // the case
    ['temp', 'did you mean temperature?'], // a part
    ['cal', 'did you mean calm or supportcal?'], // two, the nearer first
    ['xyzzy', 'there are: calm, supportcal, temperature'], // nothing near: all of them, sorted
  ])('%s: %s', (name, remedy) => {
    const error = unknownName('method', name, Object.keys(table));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.line).toBe(`unknown method "${name}"; ${remedy}`);
  });

  it('suggests three at most', () => {
    const names = ['task1', 'task2', 'task3', 'task4'];
    expect(unknownName('task', 'task', names).remedy).toBe('did you mean task1 or task2 or task3?');
  });
});
