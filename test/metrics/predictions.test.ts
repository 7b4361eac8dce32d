import { describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { checkPredictions } from '../../src/metrics';

const refusal = (rows: unknown[], options = {}) => {
  try {
    checkPredictions(rows, options);
  } catch (error) {
    expect(error).toBeInstanceOf(CalmError);
    return (error as CalmError).line;
  }
  throw new Error('was accepted');
};
const good = { probs: [0.5, 0.5], label: 0 };

describe('checkPredictions', () => {
  it('reads probabilities as they are and turns logits into probabilities', () => {
    expect(checkPredictions([{ id: 'x', probs: [0.2, 0.3, 0.5], label: 2 }, good])).toEqual({
      probs: [[0.2, 0.3, 0.5], [0.5, 0.5]],
      labels: [2, 0],
    }); // prettier-ignore
    const { probs, logits } = checkPredictions([{ logits: [1, 1], label: 0 }]);
    expect(probs).toEqual([[0.5, 0.5]]);
    expect(logits).toEqual([[1, 1]]);
  });

  it('M-4: logits that lie in [0, 1] stay logits', () => {
    const { probs } = checkPredictions([{ logits: [0, 1], label: 1 }, { logits: [1, 0], label: 0 }]); // prettier-ignore
    expect(probs[0]![1]).toBeCloseTo(0.731059, 6);
    expect(probs[1]![0]).toBeCloseTo(0.731059, 6);
  });

  it('takes a probability above 1 by rounding as 1', () => {
    expect(checkPredictions([{ probs: [1.0000001, 0], label: 0 }]).probs).toEqual([[1, 0]]);
  });

  it('accepts float32 sums and no worse', () => {
    expect(() => checkPredictions([{ probs: [0.5, 0.5 + 9e-7], label: 0 }])).not.toThrow();
    expect(refusal([{ probs: [0.5, 0.5 + 2e-6], label: 0 }])).toContain('sum to');
  });

  it.each<[string, unknown[], string]>([
    ['no rows', [], 'there are no predictions'],
    ['a string "NaN"', [{ probs: ['NaN', 0.5], label: 0 }], 'row 1: probs[0] is "NaN", not a finite number'],
    ['NaN', [good, { probs: [0.5, NaN], label: 0 }], 'row 2: probs[1] is NaN, not a finite number'],
    ['an infinite logit', [{ logits: [-Infinity, 0], label: 1 }], 'row 1: logits[0] is -Infinity'],
    ['a string "-Infinity"', [{ logits: ['-Infinity', 0], label: 1 }], 'row 1: logits[0] is "-Infinity"'],
    ['null', [{ logits: [null, 0], label: 1 }], 'row 1: logits[0] is null'],
    ['a number as a string', [{ probs: ['0.5', 0.5], label: 1 }], 'row 1: probs[0] is "0.5"'],
    ['below 0', [{ probs: [-0.1, 1.1], label: 0 }], 'row 1: probs[0] is -0.1, below 0; give logits'],
    ['a wrong sum', [{ probs: [0.5, 0.25], label: 0 }], 'row 1: the probabilities sum to 0.75, not 1; give logits'],
    ['one option', [{ probs: [1], label: 0 }], 'row 1: has 1 option(s); at least 2'],
    ['no option', [{ logits: [], label: 0 }], 'row 1: has 0 option(s)'],
    ['a label too large', [good, good, { ...good, label: 2 }], 'row 3: label is 2; expected an integer from 0 to 1'],
    ['label -100', [{ ...good, label: -100 }], 'row 1: label is -100'],
    ['half a label', [{ ...good, label: 0.5 }], 'row 1: label is 0.5'],
    ['a string label', [{ ...good, label: '0' }], 'row 1: label is "0"'],
    ['a boolean label', [{ ...good, label: true }], 'row 1: label is true'],
    ['no label', [{ probs: [0.5, 0.5] }], 'row 1: label is missing'],
    ['neither kind', [{ label: 0 }], 'row 1: has neither "probs" nor "logits"; expected'],
    ['both kinds', [{ ...good, logits: [0, 0] }], 'row 1: has both "probs" and "logits"; keep one'],
    ['mixed kinds', [good, { logits: [0, 0], label: 0 }], 'row 2: has "logits", the rows before "probs"'],
    ['not a list', [{ probs: 'x', label: 0 }], 'row 1: has no list "probs"'],
    ['a list', [[0.5, 0.5]], 'row 1: is not an object; expected'],
    ['a number', [3], 'row 1: is not an object'],
  ])('refuses %s', (_name, rows, message) => {
    expect(refusal(rows)).toContain(message);
  });

  it('reads the kind it is told, and names rows as it is told', () => {
    const both = [{ probs: [0.5, 0.5], logits: [0, 2], label: 0 }];
    expect(checkPredictions(both, { kind: 'probs' }).logits).toBeUndefined();
    expect(checkPredictions(both, { kind: 'logits' }).logits).toEqual([[0, 2]]);
    const where = (row: number) => `p.jsonl, line ${row + 7}`;
    expect(refusal([good], { kind: 'logits', where })).toBe('p.jsonl, line 7: has no list "logits"');
  });
});
