import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readJsonl } from '../evaluate/tiny-folder';
import { HAS_SHARED, HAS_SMOL, sharedJson } from '../shared';
import { calm, calmJson, failure, workplace } from './calm';

interface Texts {
  id: string | number;
  texts: string[];
  ids: number[][];
}

const { model, at, write } = workplace();
const generate = (rows: string, ...more: string[]) => ['generate', '--model', model, '--in', rows, '--out', at('out.jsonl'), ...more]; // prettier-ignore
const texts = async (rows: unknown[], ...more: string[]) => {
  await calmJson(...generate(write('prompts.jsonl', rows), ...more));
  return readJsonl<Texts>(at('out.jsonl'));
};
const PROMPTS = [
  { id: 1, prompt: 'One, two' },
  { id: 'b', prompt: 'é' },
];

describe('calm generate', () => {
  it('continues each prompt greedily, one text each', async () => {
    const found = await texts(PROMPTS, '--max-new-tokens', '5');
    expect(found.map(({ id }) => id)).toEqual([1, 'b']);
    for (const row of found) {
      expect(Object.keys(row).sort()).toEqual(['id', 'ids', 'texts']);
      expect([row.texts.length, row.ids.length]).toEqual([1, 1]);
      expect(row.ids[0]!.length).toBeLessThanOrEqual(5);
    }
    expect(await texts(PROMPTS, '--max-new-tokens', '5', '--seed', '3')).toEqual(found);
    const tokens = found.flatMap(({ ids }) => ids.flat()).length;
    const said = await calm('-q', ...generate(at('prompts.jsonl'), '--max-new-tokens', '5'));
    expect(said).toEqual({ code: 0, stdout: `2 rows, ${tokens} tokens in ${at('out.jsonl')}\n`, stderr: '' });
  });

  it('samples by the seed and the id, whatever stands beside it', async () => {
    const sampled = ['--samples', '3', '--temperature', '1', '--max-new-tokens', '6', '--seed', '1'];
    const found = await texts(PROMPTS, ...sampled);
    expect(found.map(({ ids }) => ids.length)).toEqual([3, 3]);
    expect(await texts([...PROMPTS].reverse(), ...sampled)).toEqual([...found].reverse());
    expect(await texts(PROMPTS, ...sampled.slice(0, -1), '2')).not.toEqual(found);
    expect(new Set(found[0]!.texts).size).toBeGreaterThan(1);
  });

  it('filters, ends at texts and says how likely its tokens were where asked', async () => {
    const many = ['--samples', '20', '--temperature', '2', '--max-new-tokens', '8'];
    const [free] = await texts(PROMPTS, ...many, '--logprobs');
    expect(Object.keys(free!).sort()).toEqual(['id', 'ids', 'logprobs', 'texts']);
    const distinct = (row: Texts) => new Set(row.ids.map(([first]) => first)).size;
    const [few] = await texts(PROMPTS, ...many, '--top-k', '2');
    expect([distinct(few!), distinct(free!) > 2]).toEqual([2, true]);
    expect(distinct((await texts(PROMPTS, ...many, '--min-p', '1'))[0]!)).toBe(1);
    const end = [...free!.texts[0]!][2]!;
    const [cut] = await texts(PROMPTS, ...many, '--until', end);
    expect(cut!.texts[0]).toBe(free!.texts[0]!.split(end)[0]);
    expect(cut!.texts.some((text) => text.includes(end))).toBe(false);
    const [penalised] = await texts(
      [{ id: 1, prompt: 'aaaa' }],
      '--repetition-penalty',
      '1e6',
      '--max-new-tokens',
      '8',
    );
    expect(new Set(penalised!.ids[0]).size).toBe(penalised!.ids[0]!.length);
  });

  it('answers conversations by the chat template', async () => {
    const rows = [
      { id: 1, messages: [{ role: 'user', content: 'Hi' }] },
      { id: 2, prompt: '[Hi]' },
    ];
    const [chat, plain] = await texts(rows, '--max-new-tokens', '4');
    expect(chat!.ids).toEqual(plain!.ids);
  });

  it.each<[string, object, string]>([
    ['an empty prompt', { prompt: '' }, 'prompt 2 is empty'],
    ['a prompt beyond the context', { prompt: 'a'.repeat(600) }, "prompt 2: 600 tokens and 128 new ones exceed the model's 512; shorten it"],
    ['neither', {}, 'line 2: has to have one of "prompt" and "messages"'],
    ['both', { prompt: 'a', messages: [] }, 'line 2: has to have one of'],
    ['no messages', { messages: [] }, 'chat messages'],
    ['text for messages', { messages: 'Hi' }, 'line 2: field "messages"'],
  ])('refuses %s, and keeps what was there', async (_what, row, message) => {
    fs.writeFileSync(at('out.jsonl'), 'earlier');
    const rows = write('bad.jsonl', [{ id: 1, prompt: 'a' }, { id: 2, ...row }]);
    expect(await failure(1, ...generate(rows))).toContain(message);
    expect(fs.readFileSync(at('out.jsonl'), 'utf8')).toBe('earlier');
  }); // prettier-ignore
});

describe.skipIf(!HAS_SMOL || !HAS_SHARED)('calm generate with SmolLM2 (needs the model and ../shared)', () => {
  it('gives the reference’s text', async () => {
    interface Reference {
      prompts: { id: string; prompt: string }[];
      generation: { prompt_id: string; new_ids: number[]; text: string }[];
    }
    const { prompts, generation } = sharedJson<Reference>('oracle', 'smol', 'public.json');
    const asked = generation.map((g, id) => ({ id, prompt: prompts.find((p) => p.id === g.prompt_id)!.prompt }));
    const count = String(generation[0]!.new_ids.length);
    const rows = write('reference.jsonl', asked);
    await calmJson('generate', '--model', 'smollm2-135m-instruct', '--in', rows, '--out', at('smol.jsonl'), '--max-new-tokens', count); // prettier-ignore
    readJsonl<Texts>(at('smol.jsonl')).forEach((row, i) => {
      const { new_ids, text } = generation[i]!;
      const end = new_ids.indexOf(2); // the reference goes on after <|im_end|>
      expect(row.ids).toEqual([end < 0 ? new_ids : new_ids.slice(0, end)]);
      expect(text.startsWith(row.texts[0]!)).toBe(true);
    });
  });
});
