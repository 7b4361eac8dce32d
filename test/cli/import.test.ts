import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { calm, calmJson, failure, workplace } from './calm';

const { at } = workplace();
const FOLDER = path.join(__dirname, '../fixtures/lm-eval');
const FILE = path.join(
  FOLDER,
  fs.readdirSync(FOLDER).find((name) => name.startsWith('results_'))!,
);

describe('calm import lm-eval', () => {
  it('writes what report, compare and the rest read', async () => {
    const { code, stdout } = await calm('import', 'lm-eval', FILE, '--out', at('run'), '--resamples', '0');
    expect(code).toBe(0);
    expect(stdout).toContain('| SmolLM2-135M-Instruct | winogrande | continuation |');
    await calmJson('report', at('run'), '--out', at('figures'));
    expect(fs.readFileSync(at('figures/report.md'), 'utf8')).toContain('winogrande');
    const { comparisons } = await calmJson<{ comparisons: unknown[] }>('compare', at('run'), at('run'));
    expect(comparisons).toHaveLength(3);
  });

  it('refuses other files and harnesses', async () => {
    expect(await failure(2, 'import', 'lm-eval', at('other.json'), '--out', at('x'))).toContain('is not named as');
    expect(await failure(2, 'import', 'helm', FILE, '--out', at('x'))).toContain('Expected one of lm-eval');
    expect(fs.existsSync(at('x'))).toBe(false);
  });
});
