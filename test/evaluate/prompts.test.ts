import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors';
import { loadTokenizer } from '../../src/pretrained';
import { letterPrompt, LETTERS, letterTokens, tokenizerFromJson, withExamples } from '../../src/data';
import { encodePair } from '../../src/evaluate';
import { HAS_SHARED, HAS_SMOL, sharedJson } from '../shared';
import { BOS, tinyTokenizer } from './tiny-folder';

const tiny = tokenizerFromJson(tinyTokenizer(), { bos_token: '<s>', eos_token: '</s>', add_bos_token: false });
const wantsBos = tokenizerFromJson(tinyTokenizer(), { bos_token: '<s>', add_bos_token: true });
const merging = tokenizerFromJson({ model: { vocab: { A: 0, B: 1, AB: 2 }, merges: ['A B'] } });

const DOC = { id: '1', question: 'Which is blue?', choices: ['The sky', 'Grass'], answer: 0 };

describe('letterPrompt', () => {
  it('lists the options under the question, and ends where the letter follows', () => {
    expect(letterPrompt(DOC)).toBe('Which is blue?\nA. The sky\nB. Grass\nAnswer:');
  });

  it('starts with the passage a question is about', () => {
    expect(letterPrompt({ ...DOC, passage: 'Look up.' })).toMatch(/^Look up\.\nWhich is blue\?\nA\. /);
  });

  it('letters 26 options A to Z', () => {
    const choices = Array.from({ length: 26 }, (_, i) => `option ${i}`);
    const lines = letterPrompt({ ...DOC, choices })
      .split('\n')
      .slice(1, -1);
    expect(lines.map((line) => line.slice(0, 3))).toEqual([...LETTERS].map((letter) => `${letter}. `));
  });
});

describe('letterTokens', () => {
  it('are letters after a blank, without one where the prompt ends with white space', () => {
    expect([...letterTokens(tiny, 3, 'Answer:')]).toEqual([258, 259, 260]);
    expect([...letterTokens(tiny, 3, 'assistant\n')]).toEqual([65, 66, 67]);
    expect([...letterTokens(wantsBos, 2, 'Answer:')]).toEqual([258, 259]); // no BOS among them
    expect(letterTokens(tiny, 26, 'Answer:')).toHaveLength(26);
  });

  it('refuses a tokenizer that splits a letter, and a 27th option', () => {
    const bytesOnly = tinyTokenizer();
    (bytesOnly['model'] as { merges: string[][] }).merges = [];
    expect(() => letterTokens(tokenizerFromJson(bytesOnly), 2, 'Answer:')).toThrow('" A" is 2 tokens');
    expect(() => letterTokens(tiny, 27, 'Answer:')).toThrow(UsageError);
  });
});

describe('withExamples', () => {
  it('puts each example with its answer and a blank line before the prompt', () => {
    expect(withExamples([], 'Q')).toBe('Q');
    expect(
      withExamples(
        [
          { prompt: '1:', answer: 'X' },
          { prompt: '2:\n', answer: 'X' },
        ],
        '3:',
      ),
    ).toBe('1: X\n\n2:\nX\n\n3:');
  });
});

describe('encodePair', () => {
  it('E-1: a token across the border leaves a continuation of at least one token', () => {
    expect(merging.encode('AB')).toEqual([2]);
    expect(encodePair(merging, 'A', 'B')).toEqual({ context: [0], continuation: [1] });
    expect(encodePair(merging, 'B', 'AB')).toEqual({ context: [1], continuation: [2] });
  });

  it('E-1: refuses an empty continuation, which would score a perfect 0', () => {
    expect(() => encodePair(tiny, 'A', '')).toThrow(UsageError);
    const strips = { ...tinyTokenizer(), normalizer: { type: 'Strip', strip_left: true, strip_right: true } };
    expect(() => encodePair(tokenizerFromJson(strips), 'A', '  ')).toThrow('has no tokens');
  });

  it('E-2: a blank is the continuation’s, on whichever side it was written', () => {
    const pair = encodePair(tiny, 'Q:', ' Yes');
    expect(encodePair(tiny, 'Q: ', 'Yes')).toEqual(pair);
    expect(pair).toEqual({ context: tiny.encode('Q:'), continuation: tiny.encode(' Yes') });
    expect(encodePair(tiny, 'Q:\n ', 'x')).toEqual(encodePair(tiny, 'Q:', '\n x'));
  });

  it('conditions on a start token where there is no context', () => {
    expect(encodePair(tiny, '', 'x')).toEqual({ context: [BOS], continuation: [120] });
    expect(encodePair(tiny, '  ', 'x')).toEqual({ context: [BOS], continuation: tiny.encode('  x') });
    expect(encodePair(tokenizerFromJson(tinyTokenizer(), { eos_token: '</s>' }), '', 'x').context).toEqual([257]);
  });

  it('E-10, E-11: starts with exactly one BOS where the model wants one', () => {
    for (const context of ['Q:', '<s>Q:', '', '<s>']) {
      const { context: ids, continuation } = encodePair(wantsBos, context, ' Yes');
      expect([...ids, ...continuation].filter((id) => id === BOS)).toHaveLength(1);
      expect(ids[0]).toBe(BOS);
      expect(continuation).toEqual(tiny.encode(' Yes'));
    }
    expect(encodePair(tiny, 'Q:', ' Yes').context).not.toContain(BOS);
  });

  it.skipIf(!HAS_SMOL || !HAS_SHARED)('cuts as the reference does (needs the model and ../shared)', () => {
    const smol = loadTokenizer('smollm2-135m-instruct');
    type Prompt = { loglikelihood: Record<string, unknown> };
    const { prompts } = sharedJson<{ prompts: Prompt[] }>('oracle', 'smol', 'public.json');
    expect(prompts.length).toBeGreaterThan(3);
    for (const { loglikelihood: l } of prompts) {
      expect(encodePair(smol, l['context'] as string, l['continuation'] as string)).toEqual({
        context: l['context_ids'],
        continuation: l['continuation_ids'],
      });
    }
  });
});
