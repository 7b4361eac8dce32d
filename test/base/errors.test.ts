import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CalmError, systemCode, UsageError } from '../../src/base/errors';

describe('CalmError', () => {
  it('gives cause and remedy in one line, whatever line breaks they hold', () => {
    const error = new CalmError('cannot read:\n  bad\r\nheader\rhere\u2028end\n', { remedy: 'fetch it\n again' });
    expect(error.line).toBe('cannot read: bad header here end ; fetch it again');
    expect(new CalmError('it broke\n').line).toBe('it broke');
  });

  it('fails with exit code 1, a usage error with 2; both keep their cause', () => {
    const cause = new Error('below');
    const failed = new CalmError('failed', { cause });
    const misused = new UsageError('misused', { cause, remedy: 'see --help' });
    expect([failed.exitCode, failed.name, failed.cause]).toEqual([1, 'CalmError', cause]);
    expect([misused.exitCode, misused.name, misused.cause]).toEqual([2, 'UsageError', cause]);
    expect(misused).toBeInstanceOf(CalmError);
    expect(misused.line).toBe('misused; see --help');
  });
});

describe('systemCode', () => {
  it('is the code of a Node error, and undefined for anything else', () => {
    let thrown: unknown;
    try {
      fs.readFileSync('/no/such/file');
    } catch (error) {
      thrown = error;
    }
    expect(systemCode(thrown)).toBe('ENOENT');
    expect([new Error('plain'), 'ENOENT', { code: 'ENOENT' }, undefined].map(systemCode)).toEqual(
      Array(4).fill(undefined),
    );
    expect(systemCode(Object.assign(new Error(), { code: 7 }))).toBeUndefined();
  });
});
