import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readJsonl, TINY_VOCAB } from '../evaluate/tiny-folder';
import { HAS_SHARED, HAS_SMOL, sharedJson } from '../shared';
import { calm, calmJson, failure, workplace } from './calm';

interface Score {
  id: string | number;
  logprob: number | string;
  is_greedy: boolean;
  token_logprobs: number[];
  truncated?: number;
}

const { model, at, write } = workplace();
const score = (rows: string, ...more: string[]) => ['score', '--model', model, '--in', rows, '--out', at('scores.jsonl'), ...more]; // prettier-ignore
const scores = async (rows: unknown[], ...more: string[]) => {
  await calmJson(...score(write('rows.jsonl', rows), ...more));
  return readJsonl<Score>(at('scores.jsonl'));
};

describe('calm score', () => {
  it('takes text or ids on either side, and gives the same', async () => {
    const found = await scores([
      { id: 1, context: 'Q:', continuation: ' yes' },
      { id: 2, context_ids: [81, 58], continuation: ' yes' },
      { id: '3', context: 'Q:', continuation_ids: [32, 121, 101, 115] },
      { id: 4, context_ids: [81, 58], continuation_ids: [32, 121, 101, 115], extra: true },
      { id: 5, context: 'Q: ', continuation: 'yes' }, // E-2
    ]);
    expect(found.map(({ id }) => id)).toEqual([1, 2, '3', 4, 5]);
    for (const row of found) {
      expect(Object.keys(row).sort()).toEqual(['id', 'is_greedy', 'logprob', 'token_logprobs']);
      expect(row.token_logprobs).toHaveLength(4);
      row.token_logprobs.forEach((lp, t) => expect(lp).toBeCloseTo(found[0]!.token_logprobs[t]!, 5));
      expect(row.token_logprobs.reduce((a, b) => a + b, 0)).toBeCloseTo(row.logprob as number, 12);
    }
  });

  it('says what it did: on stdout the JSON, or a line; progress on stderr', async () => {
    const rows = write('rows.jsonl', [{ id: 1, context: 'Q:', continuation: ' yes' }]);
    const json = await calmJson<{ model_hash: string }>(...score(rows));
    expect(json).toEqual({
      rows: 1,
      truncated: 0,
      model_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      out: at('scores.jsonl'),
    });
    const { code, stdout, stderr } = await calm(...score(rows));
    expect([code, stdout]).toEqual([0, `1 rows in ${at('scores.jsonl')}\n`]);
    expect(stderr).toMatch(/^loading tiny 12\/12, 0:00\nscoring 1\/1, 0:00\n$/);
    expect((await calm('-q', ...score(rows))).stderr).toBe('');
  });

  it('conditions on a start token where there is no context', async () => {
    const [empty, none, start] = await scores([
      { id: 1, context: '', continuation: 'x' },
      { id: 2, context_ids: [], continuation: 'x' },
      { id: 3, context_ids: [256], continuation: 'x' },
    ]);
    expect([empty!.logprob, none!.logprob]).toEqual([start!.logprob, start!.logprob]);
  });

  it('E-6, E-8: says what was cut, and scores the impossible as -Infinity', async () => {
    const rows = [
      { id: 'fits', context: 'a'.repeat(512), continuation: 'b' },
      { id: 'cut', context: 'a'.repeat(600), continuation: 'b' },
      { id: 'impossible', context: 'a', continuation: 'b'.repeat(513) },
    ];
    const [fits, cut, impossible] = await scores(rows);
    expect(fits!.truncated).toBeUndefined();
    expect([cut!.truncated, cut!.logprob]).toEqual([88, fits!.logprob]);
    expect(impossible).toEqual({ id: 'impossible', logprob: '-Infinity', is_greedy: false, token_logprobs: [], truncated: 1 }); // prettier-ignore
    const said = await calm(...score(at('rows.jsonl')));
    expect(said.stdout).toContain('the context of 2 was cut from the left');
  });

  it('E-13: does not depend on the batch', async () => {
    const rows = Array.from({ length: 12 }, (_, i) => ({ id: i, context: 'Well, '.repeat(i + 1), continuation: 'ok' }));
    const one = await scores(rows, '--batch-tokens', '1');
    const all = await scores(rows, '--batch-tokens', '100000');
    one.forEach((row, i) => {
      expect(Math.abs((row.logprob as number) - (all[i]!.logprob as number))).toBeLessThan(1e-5);
      expect(all[i]!.is_greedy).toBe(row.is_greedy);
    });
  });

  it.each<[string, object, string]>([
    ['an empty continuation', { context: 'a', continuation: '' }, 'line 2: an empty continuation cannot be scored'],
    ['no ids to score', { context: 'a', continuation_ids: [] }, 'line 2: an empty continuation cannot be scored'],
    ['an id beyond the vocabulary', { context_ids: [TINY_VOCAB], continuation: 'a' }, `line 2: token id ${TINY_VOCAB} is not one of the ${TINY_VOCAB} tokens`],
    ['an id far beyond', { context: 'a', continuation_ids: [2 ** 40] }, 'line 2: token id 1099511627776 is not one'],
    ['a negative id', { context_ids: [-1], continuation: 'a' }, 'line 2: field "context_ids.0"'],
    ['half an id', { context_ids: [0.5], continuation: 'a' }, 'line 2: field "context_ids.0"'],
    ['ids as text', { context_ids: '1,2', continuation: 'a' }, 'line 2: field "context_ids"'],
    ['no continuation', { context: 'a' }, 'has to have one of "continuation" and "continuation_ids"'],
    ['two contexts', { context: 'a', context_ids: [1], continuation: 'a' }, 'has to have one of "context"'],
  ])('refuses %s, and keeps what was there', async (_what, row, message) => {
    fs.writeFileSync(at('scores.jsonl'), 'earlier');
    const rows = write('bad.jsonl', [{ id: 1, context: 'a', continuation: 'b' }, { id: 2, ...row }]);
    const code = message.includes('an empty') && 'continuation' in row ? 2 : 1;
    expect(await failure(code, ...score(rows))).toContain(message);
    expect(fs.readFileSync(at('scores.jsonl'), 'utf8')).toBe('earlier');
  }); // prettier-ignore

  it('refuses an output that cannot be, before it loads the model', async () => {
    const rows = write('rows.jsonl', [{ id: 1, context: 'a', continuation: 'b' }]);
    const line = await failure(1, 'score', '--model', 'unknown', '--in', rows, '--out', '/dev/null/x');
    expect(line).toMatch(/cannot write .*dev.null/);
  });
});

describe.skipIf(!HAS_SMOL || !HAS_SHARED)('calm score with SmolLM2 (needs the model and ../shared)', () => {
  it('gives the reference’s scores, from text and from ids', async () => {
    interface Pair {
      context: string;
      continuation: string;
      context_ids: number[];
      continuation_ids: number[];
      token_logprob_f64: number[];
      total_f64: number;
      is_greedy: boolean;
    }
    const { prompts } = sharedJson<{ prompts: { loglikelihood: Pair }[] }>('oracle', 'smol', 'public.json');
    const pairs = prompts.map(({ loglikelihood }) => loglikelihood);
    const rows = write('reference.jsonl', [
      ...pairs.map(({ context, continuation }, id) => ({ id, context, continuation })),
      ...pairs.map(({ context_ids, continuation_ids }, id) => ({ id, context_ids, continuation_ids })),
    ]);
    await calmJson('score', '--model', 'smollm2-135m-instruct', '--in', rows, '--out', at('smol.jsonl'));
    const found = readJsonl<Score>(at('smol.jsonl'));
    expect(found).toHaveLength(2 * pairs.length);
    [...pairs, ...pairs].forEach(({ total_f64, token_logprob_f64, is_greedy }, i) => {
      expect(Math.abs((found[i]!.logprob as number) - total_f64)).toBeLessThan(1e-3);
      expect(found[i]!.is_greedy).toBe(is_greedy);
      expect(found[i]!.token_logprobs).toHaveLength(token_logprob_f64.length);
      found[i]!.token_logprobs.forEach((lp, t) => expect(Math.abs(lp - token_logprob_f64[t]!)).toBeLessThan(3e-4));
    });
  });
});
