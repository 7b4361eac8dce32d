import * as path from 'node:path';

/** A model that can be named without a path. */
export interface Preset {
  file: string;
  sha256: string;
  licence: string;
  description: string;
}

export const PRESETS: Readonly<Record<string, Preset>> = {
  'smollm2-135m-instruct': {
    file: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    licence: 'Apache-2.0',
    description: 'Llama architecture, 135M parameters, aligned with SFT and DPO, 4-bit weights',
  },
};

/** The folder of this package, whether it runs from `src` or from `.build`. */
export const PACKAGE_ROOT = path.join(__dirname, '..', '..');

/** Where models and downloads are kept: CALM_CACHE, or `.cache` in the package. */
export function cacheFolder(): string {
  return process.env['CALM_CACHE'] ?? path.join(PACKAGE_ROOT, '.cache');
}

export function presetFile(name: string): string {
  const preset = PRESETS[name];
  if (!preset) throw new RangeError(`no preset ${name}`);
  return path.join(cacheFolder(), 'models', preset.file);
}
