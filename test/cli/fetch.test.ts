import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { closedPort, hub, parquet, serve } from '../data/hub-server';
import { calm, calmJson, failure, workplace } from './calm';

const { at, model } = workplace();
const row = (i: number) => ({
  goal: `Open jar ${i}`,
  sol1: 'turn the lid',
  sol2: 'turn the table',
  label: BigInt(i % 2),
});

beforeEach(async () => {
  const file = await parquet([0, 1, 2].map(row));
  const { origin } = await serve(hub({ 'baber/piqa/default/validation': [file] }));
  vi.stubEnv('HF_ENDPOINT', origin);
});
afterEach(() => vi.unstubAllEnvs());

describe('calm fetch', () => {
  it('fetches what calm eval then asks', async () => {
    const file = path.join(at('data'), 'piqa', 'validation.jsonl');
    const { code, stdout, stderr } = await calm('fetch', 'piqa', '--data', at('data'));
    expect([code, stdout]).toEqual([
      0,
      `piqa validation: 3 rows, ${file}\n\ncalm eval --tasks piqa --data ${at('data')} …\n`,
    ]);
    expect(stderr).toMatch(/^piqa validation, bytes (\d+)\/\1, 0:0\d\n$/);
    const { results } = await calmJson<{ results: { n: number }[] }>(
      ...['eval', '--model', model, '--tasks', 'piqa', '--data', at('data'), '--out', at('run')],
      ...['--resamples', '0', '--no-cache'],
    );
    expect(results).toMatchObject([{ task: 'piqa', n: 3 }]);
    const again = await calm('fetch', 'piqa', '--data', at('data'));
    expect([again.code, again.stderr]).toEqual([0, '']);
    expect(again.stdout).toContain(`piqa validation: 3 rows, ${file} (was there already)`);
  });

  it("writes to the project's cache unless told otherwise, and says so in JSON", async () => {
    vi.stubEnv('CALM_CACHE', at('cache'));
    const file = path.join(at('cache'), 'data', 'piqa', 'validation.jsonl');
    expect(await calmJson('--quiet', 'fetch', 'piqa')).toEqual({
      tasks: [
        {
          task: 'piqa',
          data: path.join(at('cache'), 'data'),
          splits: [{ split: 'validation', file, rows: 3, status: 'fetched' }],
        },
      ],
    });
    expect(fs.existsSync(file)).toBe(true);
  });

  it('fetches what mcqa is drawn from', async () => {
    const line = await failure(1, 'fetch', 'mcqa', 'arc_challenge', '--data', at('mcqa'));
    expect(line).toContain('allenai/ai2_arc/parquet/ARC-Challenge/train does not exist (404)');
  });

  it('refuses names before it fetches any', async () => {
    const fetch = ['fetch', 'piqa', '--data', at('none')];
    expect(await failure(2, ...fetch, 'hellswag')).toBe('unknown benchmark "hellswag"; did you mean hellaswag?');
    expect(await failure(2, ...fetch, 'starter')).toBe('the task starter comes with calm-lab; leave it out');
    expect(fs.existsSync(at('none'))).toBe(false);
  });

  it('fails in one line', async () => {
    const fetch = ['fetch', 'piqa', '--data', at('none')];
    expect(await failure(1, 'fetch', 'mathqa', '--data', at('none'))).toContain('does not exist (404)');
    vi.stubEnv('HF_ENDPOINT', 'nowhere');
    expect(await failure(2, ...fetch)).toContain('the hub\'s address "nowhere" is not one');
    vi.stubEnv('HF_ENDPOINT', await closedPort());
    expect(await failure(1, ...fetch)).toMatch(
      /^cannot reach 127\S+ \(ECONNREFUSED\); .* to \S+piqa.validation\.jsonl yourself$/,
    );
  });

  it('is what an evaluation without rows points to', async () => {
    const evaluate = ['eval', '--model', model, '--tasks', 'piqa', '--out', at('x')];
    expect(await failure(2, ...evaluate)).toContain('with --data DIR (calm fetch piqa downloads it)');
  });
});
