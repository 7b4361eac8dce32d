import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wrap } from '../../src/report/wrap';

describe('wrap', () => {
  it.each([
    ['short', 10, ['short']],
    ['', 10, ['']],
    ['two words here', 9, ['two words', 'here']],
    ['meta-llama/Llama-3.1', 11, ['meta-llama/', 'Llama-3.1']],
    ['abcdefghij', 4, ['abcd', 'efgh', 'ij']],
  ])('breaks %j at %i', (text, width, lines) => {
    expect(wrap(text, width)).toEqual(lines);
  });

  it('keeps every character but spaces, in lines within the width', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), fc.integer({ min: 1, max: 20 }), (text, width) => {
        const lines = wrap(text, width);
        expect(lines.every((line) => line.length <= width)).toBe(true);
        expect(lines.join('').replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
      }),
    );
  });
});
