import { describe, expect, it } from 'vitest';
import { calm, calmJson } from './calm';

describe('calm doctor', () => {
  it('tells what was found, in words and as JSON', async () => {
    const json = await calmJson<Record<string, unknown> & { missing: { what: string; how: string }[] }>('doctor');
    for (const key of ['node', 'python', 'tensorflow', 'gpu', 'jupyter', 'kernel', 'model', 'data', 'missing']) {
      expect(json).toHaveProperty(key);
    }
    const { code, stdout } = await calm('doctor');
    expect(code).toBe(0);
    expect(stdout).toContain(`node        ${process.version.slice(1)}`);
    for (const { what, how } of json.missing) expect(stdout).toContain(`  ${what}: ${how}\n`);
    if (json.missing.length === 0) expect(stdout).toContain('Nothing is missing.');
  });
});
