import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { rank, type Python } from '../../src/setup/machine';
import { pipNote, readVenv, type VenvRecord } from '../../src/setup/python';
import { SETUP, temporaryFolder } from './tools';

describe('the record of an environment', () => {
  const record: VenvRecord = {
    root: '/somewhere/calm-lab',
    made: '2026-01-01T00:00:00.000Z',
    python: '3.11.7',
    requirements: 'abc',
    cuda: false,
    jupyterlab: '4.6.6',
    tensorflow: '2.21.0',
    packages: '/somewhere/calm-lab/.venv/lib/python3.11/site-packages',
  };
  function environment(text: string | undefined) {
    const folder = temporaryFolder();
    const file = path.join(folder, 'calm-lab.json');
    if (text !== undefined) fs.writeFileSync(file, text);
    return file;
  }
  const python = process.execPath; // any file that exists

  it('is read when the environment is whole', () => {
    expect(readVenv(environment(JSON.stringify(record)), record.root, python)).toEqual(record);
  });

  it('is absent for a half-made environment', () => {
    expect(readVenv(environment(undefined), record.root, python)).toBeUndefined();
    expect(readVenv(environment('{"root": "/somew'), record.root, python)).toBeUndefined();
  });

  it('does not count after a move, or when its Python is gone', () => {
    const file = environment(JSON.stringify(record));
    expect(readVenv(file, '/elsewhere/calm-lab', python)).toBeUndefined();
    expect(readVenv(file, record.root, path.join(path.dirname(file), 'bin/python'))).toBeUndefined();
  });
});

describe('choosing a Python', () => {
  const python = (major: number, minor: number, venv = true): Python => ({
    path: 'python',
    version: `${major}.${minor}.0`,
    major,
    minor,
    venv,
    pip: true,
  });

  it('prefers one that TensorFlow has a wheel for and that can make environments', () => {
    const order = [python(3, 11), python(3, 9), python(3, 14), python(3, 12, false), python(3, 14, false)].map(rank);
    expect(order).toEqual([...order].sort((a, b) => (a ?? 99) - (b ?? 99)));
    expect(new Set(order).size).toBe(5);
    expect(rank(python(3, 10))).toBe(rank(python(3, 13)));
  });

  it('refuses what is too old', () => {
    expect(rank(python(2, 7))).toBeUndefined();
    expect(rank(python(3, 8))).toBeUndefined();
  });
});

describe('pip in a few words', () => {
  it.each([
    ['Collecting jupyterlab==4.6.6 (from -r x.txt (line 1))', 'collecting jupyterlab==4.6.6 (from -r x.txt (line 1))'],
    [
      '  Downloading tensorflow_cpu-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl (271.1 MB)',
      'downloading tensorflow_cpu-2.21.0 (271.1 MB)',
    ],
    ['  Downloading jupyterlab-4.6.6-py3-none-any.whl (17.3 MB)', 'downloading jupyterlab-4.6.6 (17.3 MB)'],
    ['Installing collected packages: a, b, c', 'installing 3 packages'],
    ['Looking in indexes: https://example.org', 'before'],
  ])('%s', (line, note) => {
    expect(pipNote(line, 'before')).toBe(note);
  });

  it('adds how far a download is', () => {
    const once = pipNote('Progress 30 of 120', 'downloading x');
    expect(once).toBe('downloading x, 25 %');
    expect(pipNote('Progress 60 of 120', once)).toBe('downloading x, 50 %');
    expect(pipNote('Progress 60 of 0', once)).toBe(once);
  });
});

describe('the requirements', () => {
  it.each(['requirements-jupyter.txt', 'requirements-tensorflow.txt', 'requirements-tensorflow-cuda.txt'])(
    '%s are pinned exactly',
    (name) => {
      const lines = fs
        .readFileSync(path.join(SETUP, name), 'utf8')
        .split('\n')
        .filter((l) => l !== '' && !l.startsWith('#'));
      expect(lines.length).toBeGreaterThan(0);
      for (const line of lines) expect(line).toMatch(/^[a-z-]+(\[[a-z-]+\])?==\d+\.\d+\.\d+($|;)/);
    },
  );
});
