import { execFileSync, spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readResults, readRows } from '../../src/evaluate';
import { calmJson, workplace } from './calm';

const { model, at, write } = workplace();
const main = path.join(__dirname, '../../src/setup/calm.cjs');
const question = (i: number) => ({ id: `q${i}`, question: `What is ${i}?`, choices: ['this', 'that'], answer: i % 2 });
const few = write(
  'few.jsonl',
  Array.from({ length: 4 }, (_, i) => question(i)),
);
const many = write(
  'many.jsonl',
  Array.from({ length: 20_000 }, (_, i) => question(i)),
);
const evaluate = (tasks: string, out: string) => ['eval', '--model', model, '--tasks', tasks, '--out', out, '--resamples', '0', '--no-cache']; // prettier-ignore

/** What stood in a folder before is there, readable, and alone. */
async function untouched(run: string): Promise<void> {
  expect(readResults(run).map(({ task, n }) => [task, n])).toEqual([['few', 4]]);
  expect(await readRows(run)).toHaveLength(4);
  expect(fs.readdirSync(run).sort()).toEqual(['results.json', 'rows.jsonl']);
}

describe('an evaluation that is ended', () => {
  beforeAll(async () => {
    await calmJson(...evaluate(few, at('run')));
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)('by %s leaves the earlier results', async (signal) => {
    // A process group of its own: a terminal sends its signals to all of it, and so does this test.
    const calm = spawn(process.execPath, [main, ...evaluate(many, at('run'))], {
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
    const ended = new Promise((resolve) => calm.on('close', (code, by) => resolve(by ?? code)));
    let said = '';
    calm.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes('loading tiny 12/12')) setTimeout(() => process.kill(-calm.pid!, signal), 500);
    });
    expect(await ended).toBe(signal);
    await untouched(at('run'));
  });
});

/** Whether this user may mount a small disk; elsewhere the test says that it is skipped. */
function canMount(where: string, size = '64k'): boolean {
  fs.mkdirSync(where);
  return spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'none', where]).status === 0;
}

const disk = at('disk');
describe.skipIf(!canMount(disk))('a disk that is full (needs the right to mount)', () => {
  it('keeps the earlier results, says so, and leaves no half of a file', async () => {
    try {
      await calmJson(...evaluate(few, path.join(disk, 'run')));
      const more = write(
        'more.jsonl',
        Array.from({ length: 400 }, (_, i) => question(i)),
      );
      const { status, stdout, stderr } = spawnSync(process.execPath, [main, '-q', ...evaluate(more, path.join(disk, 'run'))], { encoding: 'utf8' }); // prettier-ignore
      expect([status, stdout]).toEqual([1, '']);
      const line = stderr.trimEnd().split('\n').at(-1); // TensorFlow has said something of its own before
      expect(line).toMatch(/^calm: cannot write .*rows\.jsonl: no space left on the disk; free some space /);
      await untouched(path.join(disk, 'run'));
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});

const training = at('training');
describe.skipIf(!canMount(training, '1m'))('a disk that is full at a checkpoint (needs the right to mount)', () => {
  it('stops with the cause, keeps the checkpoint before, and goes on from it once there is room', async () => {
    const rows = (name: string, from: number) =>
      write(
        name,
        Array.from({ length: 16 }, (_, i) => question(from + i)),
      );
    const [train, valid] = [rows('train.jsonl', 0), rows('valid.jsonl', 50)];
    const sets = ['epochs=4', 'outerPerEpoch=2', 'innerSteps=1', 'batch=4', 'rank=3'].flatMap((set) => ['--set', set]);
    const command = (out: string, ...more: string[]) => [
      ...['train', 'calm', '--model', model, '--train', train, '--valid', valid, '--out', out, ...sets, ...more],
    ];
    const adapter = (out: string) => fs.readFileSync(path.join(out, 'adapter_model.safetensors'));
    try {
      await calmJson(...command(at('whole')));
      const out = path.join(training, 'run');
      const filler = path.join(training, 'filler');
      const run = (...more: string[]) =>
        spawnSync(process.execPath, [main, '-q', ...command(out, '--checkpoint-seconds', '0', ...more)], {
          encoding: 'utf8',
        });
      const size = fs.statSync(path.join(at('whole'), 'checkpoints', 'step-000008.safetensors')).size;
      // Room for two checkpoints and a half: a third is written before the first is removed.
      fs.writeFileSync(filler, new Uint8Array(2 ** 20 - Math.round(2.5 * size) - 2 ** 14));
      const { status, stderr } = run();
      expect(status).toBe(1);
      expect(stderr.trimEnd().split('\n').at(-1)).toMatch(
        /^calm: cannot write .*: no space left on the disk; free some/,
      );
      expect(fs.readdirSync(path.join(out, 'checkpoints')).every((name) => name.startsWith('step-'))).toBe(true);
      fs.rmSync(filler);
      expect(run('--resume').status).toBe(0);
      expect(adapter(out)).toEqual(adapter(at('whole')));
    } finally {
      execFileSync('umount', [training]);
    }
  });
});
