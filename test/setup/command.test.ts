import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { ask, causeIn, CommandFailed, remedyFor, runCommand } from '../../src/setup/command';
import { temporaryFolder } from './tools';

const node = (script: string, options: { limit?: number; line?: (text: string) => void } = {}) => {
  const log = path.join(temporaryFolder(), 'logs', 'x.log');
  return { log, done: runCommand(process.execPath, ['-e', script], { ...options, log }) };
};

describe('running a command', () => {
  it('hands on its lines as they come and keeps them in the log, but not the progress of downloads', async () => {
    const lines: string[] = [];
    const { log, done } = node(`console.log('one\\nProgress 1 of 2'); console.error('two')`, {
      line: (l) => lines.push(l),
    });
    await done;
    expect(lines.sort()).toEqual(['Progress 1 of 2', 'one', 'two']);
    expect(fs.readFileSync(log, 'utf8')).toMatch(/^one$/m);
    expect(fs.readFileSync(log, 'utf8')).not.toMatch(/^Progress/m);
  });

  it('fails with the cause it printed, a remedy and the name of the log', async () => {
    const { log, done } = node(`console.error('ERROR: No space left on device\\nbye'); process.exit(3)`);
    const error = await done.catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CommandFailed);
    expect((error as CommandFailed).line).toMatch(/failed: ERROR: No space left on device; free some disk space/);
    expect((error as CommandFailed).line).toContain(log);
  });

  it('ends a command that takes too long', async () => {
    const started = Date.now();
    await expect(node('setTimeout(() => {}, 60000)', { limit: 0.3 }).done).rejects.toThrow(/longer than 0.3 s/);
    expect(Date.now() - started).toBeLessThan(10_000);
  });

  it('says when there is no such command', async () => {
    const log = path.join(temporaryFolder(), 'x.log');
    await expect(runCommand('no-such-command', [], { log })).rejects.toThrow(/did not run: .*ENOENT/);
  });

  it('asks a short question, and takes no answer for an answer', () => {
    expect(ask(process.execPath, ['-p', '6 * 7'])).toBe('42');
    expect(ask(process.execPath, ['-e', 'process.exit(1)'])).toBeUndefined();
    expect(ask('no-such-command', [])).toBeUndefined();
  });
});

describe('what a failed command means', () => {
  it('finds the first error in the output, else the last line', () => {
    expect(causeIn('compiling\nx.h:25:10: fatal error: a.h: No such file\nmake: *** Error 1\n')).toMatch(/^x\.h/);
    expect(causeIn('one\ntwo\n\n')).toBe('two');
    expect(causeIn('')).toBe('no output');
  });

  it.each([
    ['OSError: [Errno 28] No space left on device', /free some disk space/],
    ['getaddrinfo ENOTFOUND registry.npmjs.org', /check the network/],
    ['Failed to establish a new connection: Name or service not known', /check the network/],
    ['anything else', /see x\.log/],
  ])('%s', (output, remedy) => {
    expect(remedyFor(output, 'x.log')).toMatch(remedy);
  });
});
