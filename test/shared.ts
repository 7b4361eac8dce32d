import * as fs from 'node:fs';
import * as path from 'node:path';
import { presetFile } from '../src/base/presets';

/** The folder of reference values beside the checkout; tests that need it say so and are skipped without it. */
export const SHARED = path.join(__dirname, '../../shared');
export const HAS_SHARED = fs.existsSync(path.join(SHARED, 'oracle'));

/** The SmolLM2 weights that `npm start` and `npm test` fetch. */
export const SMOL = presetFile('smollm2-135m-instruct');
export const HAS_SMOL = fs.existsSync(SMOL);

export function sharedJson<T>(...parts: string[]): T {
  return JSON.parse(fs.readFileSync(path.join(SHARED, ...parts), 'utf8')) as T;
}

export function maxAbsDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) throw new Error(`lengths ${a.length} and ${b.length}`);
  let max = 0;
  for (let i = 0; i < a.length; i++) max = Math.max(max, Math.abs(a[i]! - b[i]!));
  return max;
}
