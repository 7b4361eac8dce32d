import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { evaluateTexts, loadTexts, loglikelihoodRolling } from '../../src/evaluate';
import { rollingWindows } from '../../src/evaluate/perplexity';
import { detokeniseWikitext } from '../../src/evaluate/text-tasks';
import { loadModel } from '../../src/pretrained';
import fixture from '../fixtures/harness/lm-eval.json';
import { temporaryFolder } from '../model/make-files';
import { HAS_SMOL } from '../shared';
import { writeJsonl, writeTinyFolder } from './tiny-folder';

const WIKITEXT = path.join(__dirname, '../fixtures/harness/wikitext.jsonl');
const folder = temporaryFolder();

describe('rollingWindows', () => {
  it('predicts each token once, with as much context as there is room for', () => {
    const ids = [1, 2, 3, 4, 5, 6, 7];
    expect(rollingWindows(ids, 0, 3)).toEqual([
      { context: [0], continuation: [1, 2, 3] },
      { context: [3], continuation: [4, 5, 6] },
      { context: [4, 5, 6], continuation: [7] },
    ]);
    fc.assert(
      fc.property(fc.array(fc.nat(9)), fc.integer({ min: 1, max: 9 }), (text, most) => {
        const windows = rollingWindows(text, 0, most);
        expect(windows.flatMap(({ continuation }) => continuation)).toEqual(text);
        let from = 0;
        for (const { context, continuation } of windows) {
          expect(context.length + continuation.length - 1).toBeLessThanOrEqual(most);
          expect(context).toEqual(from === 0 ? [0] : text.slice(from - context.length, from));
          from += continuation.length;
        }
      }),
    );
  });
});

describe('detokeniseWikitext', () => {
  it('gives what lm-evaluation-harness gives', async () => {
    const { docs } = await loadTexts(WIKITEXT);
    expect(docs.map(({ text }) => text)).toEqual(fixture.wikitext.docs.map(({ text }) => text));
    expect(detokeniseWikitext(docs[0]!.counted!)).toBe(docs[0]!.text);
  });
});

describe('loadTexts', () => {
  it('takes a text file as one document, rows as one each', async () => {
    const file = path.join(folder, 'book.txt');
    fs.writeFileSync(file, 'Once upon a time.\n');
    expect(await loadTexts(file)).toMatchObject({ name: 'book', docs: [{ id: 'book', text: 'Once upon a time.\n' }] });
    const rows = writeJsonl(path.join(folder, 'rows.jsonl'), [{ text: 'a b' }, { text: ' ' }, 7, { id: 3, text: 'c' }]);
    const { docs, skipped } = await loadTexts(rows);
    expect(docs).toEqual([
      { id: 'rows-1', text: 'a b' },
      { id: '3', text: 'c' },
    ]);
    expect(skipped.map(({ line }) => line)).toEqual([2, 3]);
    expect((await loadTexts(rows, { limit: 1 })).docs).toHaveLength(1);
  });

  it.each([
    ['empty.txt', ' \n', 'empty.txt is empty'],
    ['none.jsonl', '{"question":"?"}\n', 'holds no text; line 1: neither "text" nor "page"'],
    ['book.pdf', 'x', 'unknown task'],
  ])('refuses %s', async (name, content, message) => {
    fs.writeFileSync(path.join(folder, name), content);
    const error: unknown = await loadTexts(path.join(folder, name)).catch((e: unknown) => e);
    expect((error as { line: string }).line).toContain(message);
    await expect(loadTexts(path.join(folder, 'absent.txt'))).rejects.toThrow('absent.txt');
  });
});

describe('evaluateTexts', () => {
  it('is the exponential of the mean surprise, by word, byte and token; batches do not matter', async () => {
    const model = await loadModel(writeTinyFolder(path.join(folder, 'tiny'), { maxPositions: 16 }));
    const texts = ['one two three', 'a longer text of many more words', 'x'];
    const docs = texts.map((text, i) => ({ id: String(i), text }));
    const task = {
      name: 'mine',
      version: 1,
      source: '',
      split: 'all',
      docs: [...docs, { id: 'e', text: '' }],
      skipped: [],
    };
    const result = evaluateTexts(model, task, { resamples: 50 });
    expect(result).toMatchObject({ scoring: 'rolling', n: 3, invalid: 1 });
    const total = -result.rows.reduce((sum, { logprob }) => sum + logprob, 0);
    const value = (name: string) => result.metrics[name]!.value!;
    expect(value('word_perplexity')).toBeCloseTo(Math.exp(total / 11), 6);
    expect(value('byte_perplexity')).toBeCloseTo(Math.exp(total / 46), 9);
    expect(value('bits_per_byte')).toBeCloseTo(Math.log2(value('byte_perplexity')), 9);
    const [low, high] = result.metrics['bits_per_byte']!.interval!;
    expect(low).toBeLessThan(value('bits_per_byte'));
    expect(high).toBeGreaterThan(value('bits_per_byte'));
    loglikelihoodRolling(model, texts, { batchTokens: 1 }).forEach(({ logProb, tokens }, i) => {
      expect(logProb).toBeCloseTo(result.rows[i]!.logprob, 4);
      expect(tokens).toBe(result.rows[i]!.tokens);
    });
    model.dispose();
  });

  it.skipIf(!HAS_SMOL)("has lm-evaluation-harness's perplexities of texts that exceed the context", async () => {
    const smol = await loadModel('smollm2-135m-instruct');
    const { window, docs, word_perplexity, byte_perplexity, bits_per_byte } = fixture.wikitext;
    const short = { ...smol, config: { ...smol.config, maxPositions: window } };
    const { rows, metrics } = evaluateTexts(short, await loadTexts(WIKITEXT), { resamples: 0 });
    rows.forEach(({ logprob }, i) => expect(Math.abs(logprob - docs[i]!.logprob)).toBeLessThan(2e-3));
    expect(metrics['word_perplexity']!.value! / word_perplexity).toBeCloseTo(1, 4);
    expect(metrics['byte_perplexity']!.value! / byte_perplexity).toBeCloseTo(1, 5);
    expect(metrics['bits_per_byte']!.value! / bits_per_byte).toBeCloseTo(1, 5);
    smol.dispose();
  });
});
