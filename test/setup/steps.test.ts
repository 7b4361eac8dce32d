import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { Degraded, runSteps, type Step } from '../../src/setup/steps';

const lock = { watch: () => undefined };
let shown = '';
beforeEach(() => {
  shown = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    shown += String(text);
    return true;
  });
});
afterEach(() => vi.restoreAllMocks());

/** A step that is done or not, and does `run` when asked. */
function step(name: string, done: string | undefined, run: () => Promise<string> = async () => `made ${name}`) {
  return { name, doing: `making ${name}`, done: async () => done, run: vi.fn(run) } satisfies Step;
}

describe('running the steps', () => {
  it('skips what is done and does the rest in order', async () => {
    const [a, b, c] = [step('a', 'there already'), step('b', undefined), step('c', undefined)];
    await runSteps([a, b, c], lock);
    expect(a.run).not.toHaveBeenCalled();
    expect(b.run.mock.invocationCallOrder[0]).toBeLessThan(c.run.mock.invocationCallOrder[0] ?? 0);
    expect(shown).toMatch(/ok {3}a +there already\n/);
    expect(shown).toMatch(/ok {3}b +made b, 0:00\n/);
  });

  it('shows what is worse than it could be, with the remedy, and goes on', async () => {
    const worse = step('a', undefined, () => Promise.reject(new Degraded('no compiler', { remedy: 'install one' })));
    const next = step('b', undefined);
    await runSteps([worse, next], lock);
    expect(shown).toMatch(/!! {3}a +no compiler; install one\n/);
    expect(next.run).toHaveBeenCalledOnce();
  });

  it('stops at a failure and hands on its cause and remedy', async () => {
    const bad = step('a', undefined, () => Promise.reject(new CalmError('disk full', { remedy: 'free some space' })));
    const next = step('b', undefined);
    await expect(runSteps([bad, next], lock)).rejects.toMatchObject({ line: 'disk full; free some space' });
    expect(next.run).not.toHaveBeenCalled();
  });

  it('names the step of a failure that nobody foresaw', async () => {
    const bad = step('a', undefined, () => Promise.reject(new TypeError('x is undefined')));
    await expect(runSteps([bad], lock)).rejects.toThrow('a: TypeError: x is undefined');
  });
});
