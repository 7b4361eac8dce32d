import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readJsonl } from '../evaluate/tiny-folder';
import { HAS_SHARED, HAS_SMOL, sharedJson } from '../shared';
import { calm, calmJson, failure, workplace } from './calm';

const { model, at, write } = workplace();
const tokenize = (rows: string, ...more: string[]) => ['tokenize', '--model', model, '--in', rows, '--out', at('ids.jsonl'), ...more]; // prettier-ignore

describe('calm tokenize', () => {
  it('turns texts and conversations into ids, each id back as it was given', async () => {
    const rows = write('texts.jsonl', [
      { id: 7, text: 'Hé B' },
      { id: 'chat', messages: [{ role: 'user', content: 'x' }], extra: 'ignored' },
      { id: 'empty', text: '' },
    ]);
    expect(await calmJson(...tokenize(rows))).toEqual({ rows: 3, tokens: 7, out: at('ids.jsonl') });
    expect(readJsonl(at('ids.jsonl'))).toEqual([
      { id: 7, ids: [72, 195, 169, 259] },
      { id: 'chat', ids: [91, 120, 93] },
      { id: 'empty', ids: [] },
    ]);
    const said = await calm(...tokenize(rows));
    expect(said).toEqual({ code: 0, stdout: `3 rows, 7 tokens in ${at('ids.jsonl')}\n`, stderr: '' });
  });

  it('reads files of Windows: a byte order mark, CRLF, blank lines', async () => {
    const rows = write('windows.jsonl', '\uFEFF{"id":1,"text":"a"}\r\n\r\n{"id":2,"text":"b\\r\\n"}\r\n');
    await calmJson(...tokenize(rows));
    expect(readJsonl(at('ids.jsonl'))).toEqual([
      { id: 1, ids: [97] },
      { id: 2, ids: [98, 13, 10] },
    ]);
  });

  it('reads markers of special tokens as such, or as text', async () => {
    const rows = write('special.jsonl', [{ id: 1, text: '<s>' }]);
    await calmJson(...tokenize(rows));
    expect(readJsonl(at('ids.jsonl'))).toEqual([{ id: 1, ids: [256] }]);
    await calmJson(...tokenize(rows, '--special-as-text'));
    expect(readJsonl(at('ids.jsonl'))).toEqual([{ id: 1, ids: [60, 115, 62] }]);
  });

  it.each<[string, string | unknown[], string]>([
    ['not JSON', '{"id":1,"text":"a"}\nhello\n', 'line 2 is not JSON'],
    ['no text', [{ id: 1 }], 'line 1: has to have one of "text" and "messages"; expected {"id": …, "text": "…"}'],
    ['both', [{ id: 1, text: 'a', messages: [] }], 'has to have one of'],
    ['no id', [{ text: 'a' }], 'line 1: field "id"'],
    ['an id that is a list', [{ id: [1], text: 'a' }], 'line 1: field "id"'],
    ['a number for text', [{ id: 1, text: 5 }], 'line 1: field "text"'],
    ['a list', [[1, 2]], 'line 1: '],
    ['nothing', '', 'is empty'],
    ['white space', ' \n\r\n\t\n', 'is empty'],
    ['messages of no kind', [{ id: 1, messages: [{ role: 'user' }] }], 'line 1: field "messages.0.content"'],
    ['no messages', [{ id: 1, messages: [] }], 'line 1: chat messages'],
  ])('refuses a file with %s, and keeps what was there', async (_what, content, message) => {
    fs.writeFileSync(at('ids.jsonl'), 'earlier');
    expect(await failure(1, ...tokenize(write('bad.jsonl', content)))).toContain(message);
    expect(fs.readFileSync(at('ids.jsonl'), 'utf8')).toBe('earlier');
  });

  it('refuses an unknown model, an absent file, and an output that cannot be', async () => {
    const rows = write('one.jsonl', [{ id: 1, text: 'a' }]);
    const line = await failure(2, 'tokenize', '--model', 'smollm', '--in', rows, '--out', at('x'));
    expect(line).toContain('unknown model "smollm"; did you mean smollm2-135m-instruct?');
    expect(await failure(1, ...tokenize(at('absent.jsonl')))).toContain('does not exist');
    expect(await failure(1, ...tokenize(at('tiny')))).toContain('is a folder');
    const out = (where: string) => failure(1, 'tokenize', '--model', model, '--in', rows, '--out', where);
    expect(await out(at('tiny'))).toContain('is a folder; name a file');
    expect(await out(`${rows}/x`)).toContain('cannot write');
  });
});

describe.skipIf(!HAS_SMOL || !HAS_SHARED)('calm tokenize with SmolLM2 (needs the model and ../shared)', () => {
  it('gives the reference’s ids of texts and conversations', async () => {
    type Text = { id: string; text: string; ids: number[]; ids_special_as_text?: number[] };
    type Chat = { id: string; messages: unknown[]; add_generation_prompt: boolean; ids: number[] };
    const { tokenizer, chat } = sharedJson<{ tokenizer: Text[]; chat: Chat[] }>('oracle', 'smol', 'public.json');
    const rows = write('reference.jsonl', [
      ...tokenizer.map(({ id, text }) => ({ id, text })),
      ...chat.map(({ id, messages, add_generation_prompt }) => ({ id, messages, add_generation_prompt })),
    ]);
    const smol = ['tokenize', '--model', 'smollm2-135m-instruct', '--in', rows, '--out', at('smol.jsonl')];
    await calmJson(...smol);
    expect(readJsonl(at('smol.jsonl'))).toEqual([...tokenizer, ...chat].map(({ id, ids }) => ({ id, ids })));
    await calmJson(...smol, '--special-as-text');
    const plain = new Map(readJsonl<Text>(at('smol.jsonl')).map(({ id, ids }) => [id, ids]));
    for (const { id, ids, ids_special_as_text } of tokenizer) {
      expect(plain.get(id), id).toEqual(ids_special_as_text ?? ids);
    }
  });
});
