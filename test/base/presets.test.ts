import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { cacheFolder, PACKAGE_ROOT, presetFile, PRESETS } from '../../src/base/presets';

afterEach(() => vi.unstubAllEnvs());

describe('presets', () => {
  it('PACKAGE_ROOT is the folder of package.json', () => {
    const json = JSON.parse(fs.readFileSync(path.join(PACKAGE_ROOT, 'package.json'), 'utf8')) as { name: string };
    expect(json.name).toBe('calm-lab');
  });

  it('are kept in CALM_CACHE, or in .cache of the package', () => {
    vi.stubEnv('CALM_CACHE', undefined);
    expect(cacheFolder()).toBe(path.join(PACKAGE_ROOT, '.cache'));
    vi.stubEnv('CALM_CACHE', path.join('/somewhere', 'else'));
    expect(presetFile('smollm2-135m-instruct')).toBe(
      path.join('/somewhere', 'else', 'models', 'SmolLM2-135M-Instruct.Q4_1.gguf'),
    );
  });

  it('refuses a name that is none', () => {
    expect(() => presetFile('gpt-5')).toThrow('no preset gpt-5');
  });

  it.each(Object.entries(PRESETS))('%s says how to check its file, and its licence', (_name, preset) => {
    expect(preset.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(preset.file).toBe(path.basename(preset.file));
    expect(preset.licence).not.toBe('');
  });
});
