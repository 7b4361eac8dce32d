import { afterEach, describe, expect, it, vi } from 'vitest';
import { diagnose } from '../../src/setup/doctor';
import { temporaryFolder } from './tools';

describe('the diagnosis', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('describes a machine where nothing is on PATH and there is no model, and says how to get each thing', async () => {
    vi.stubEnv('PATH', temporaryFolder());
    vi.stubEnv('CALM_CACHE', temporaryFolder());
    const found = await diagnose();
    expect(found.ok).toBe(false);
    expect(found.python).toBeNull();
    expect(found.gpu).toBeNull();
    expect(found.compilers).toEqual({ cc: undefined, cxx: undefined, make: undefined });
    expect(found.model).toMatchObject({ name: 'smollm2-135m-instruct', present: false, sha256_ok: false });
    expect(found.missing).toContainEqual({ what: 'the model smollm2-135m-instruct', how: 'run "npm start"' });
    expect(found.missing.map((m) => m.what)).toContain('Python 3.9 or later');
    for (const { how } of found.missing) expect(how).not.toBe('');
    expect(JSON.parse(JSON.stringify(found))).toMatchObject({ node: { version: process.versions.node } });
  });
});
