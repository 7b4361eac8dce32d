import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { toJson } from '../../src/base/files';
import { kernelInstalled, kernelSpec } from '../../src/setup/kernel';
import { temporaryFolder } from './tools';

describe('the kernel spec', () => {
  it('starts this Node and the local tslab by absolute path, with the memory settings', () => {
    const spec = kernelSpec();
    expect(spec.argv.slice(2)).toEqual(['kernel', '--config-path', '{connection_file}']);
    for (const file of spec.argv.slice(0, 2)) {
      expect(path.isAbsolute(file)).toBe(true);
      expect(fs.existsSync(file)).toBe(true);
    }
    expect(spec.argv[0]).toBe(process.execPath);
    expect(spec.language).toBe('typescript');
    expect(spec.env).toEqual({
      MALLOC_MMAP_THRESHOLD_: '4294967296',
      MALLOC_TRIM_THRESHOLD_: '4294967296',
      MALLOC_TOP_PAD_: '268435456',
      TF_CPP_MIN_LOG_LEVEL: '2',
      CALM_NOTEBOOK: '1',
    });
  });

  it('counts as installed only when the file says exactly that', () => {
    const file = path.join(temporaryFolder(), 'kernel.json');
    expect(kernelInstalled(file)).toBe(false);
    fs.writeFileSync(file, toJson(kernelSpec(), 2));
    expect(kernelInstalled(file)).toBe(true);
    fs.writeFileSync(file, toJson({ ...kernelSpec(), argv: ['/old/node'] }, 2));
    expect(kernelInstalled(file)).toBe(false);
  });
});
