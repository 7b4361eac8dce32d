import { execFileSync, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { checkWritable, integer, list, number, oneOf, writeRows } from '../../src/cli/options';
import { workplace } from './calm';

const { folder, at, write } = workplace();

describe('option parsers', () => {
  it('take integers, numbers, words and lists', () => {
    expect([integer(1)('7'), integer(0)('0'), integer(1)('1e3')]).toEqual([7, 0, 1000]);
    expect([number(0)('0.5'), number(0, 1)('1')]).toEqual([0.5, 1]);
    expect(oneOf(['a', 'b'])('b')).toBe('b');
    expect(list('a, b,c')).toEqual(['a', 'b', 'c']);
  });

  it('refuse what is none', () => {
    for (const text of ['0', '-1', '1.5', 'x', '', ' ', '9007199254740993']) expect(() => integer(1)(text)).toThrow();
    for (const text of ['-0.1', '1.1', 'NaN', 'Infinity', '']) expect(() => number(0, 1)(text)).toThrow();
    for (const text of ['a,,b', '', ',', 'a,']) expect(() => list(text)).toThrow('names separated by commas');
    expect(() => oneOf(['a', 'b'])('A')).toThrow('one of a, b');
  });
});

describe('checkWritable', () => {
  it('passes over what can be written, and leaves no trace', () => {
    const file = write('there.txt', 'kept');
    checkWritable(file);
    checkWritable(at('absent.txt'));
    expect(fs.readFileSync(file, 'utf8')).toBe('kept');
    expect(fs.readdirSync(folder)).not.toContain('absent.txt');
    expect(fs.readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });

  it('refuses a folder, and a path below a file', () => {
    const file = write('file', '');
    for (const where of [folder, `${file}/x`, `${file}/x/y.json`, '/dev/null/x']) {
      expect(() => checkWritable(where), where).toThrow(CalmError);
    }
  });

  it('does not open a pipe, whose reader waits for the rows', async () => {
    const pipe = at('pipe');
    execFileSync('mkfifo', [pipe]);
    const reader = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'inherit'] });
    let read = '';
    reader.stdout.on('data', (chunk: Buffer) => (read += chunk.toString()));
    checkWritable(pipe);
    await new Promise((resolve) => setTimeout(resolve, 50));
    writeRows(pipe, [{ id: 1 }, { id: 2 }]);
    await new Promise((resolve) => reader.on('close', resolve));
    expect(read).toBe('{"id":1}\n{"id":2}\n');
  });
});
