import { describe, expect, it } from 'vitest';
import { UsageError } from '../../../src/base/errors';
import { isCorrect, tokenF1Score, type CorrectnessRule } from '../../../src/evaluate/semantic';

describe('isCorrect', () => {
  const newYork = ['New York City', 'NYC', 'New York'];
  it.each<[string, string[], boolean, boolean, boolean]>([
    // answer, aliases, exact, contains, f1
    ['Paris', ['Paris'], true, true, true],
    ['The answer is Paris.', ['paris'], true, true, true],
    ['It was painted by Claude Monet in 1872', ['Claude Monet'], false, true, false],
    ['the city of Paris', ['Paris'], false, true, false],
    ['Paris, France', ['Paris'], false, true, true],
    ['nyc', newYork, true, true, true],
    ['City', ['New York City'], false, false, false],
    ['Roosevelt', ['Franklin Delano Roosevelt'], false, false, false],
    ['York City', ['New York City'], false, false, true],
    ['Jerome', ['Rome'], false, false, false],
    ['New England and York', ['New York'], false, false, true],
    ['not Paris', ['Paris'], false, false, true],
    ["It wasn't in the Louvre", ['Louvre'], false, false, false],
    ['not Lyon but Paris', ['Paris'], false, true, false],
    ['July 4th, 1776', ['4 July 1776'], true, true, true],
    ['July 4, 1776', ['1776'], false, true, false],
    ['July 4, 1776', ['July 1776'], false, true, true],
    ['July 4, 1776', ['July 1777'], false, false, false],
    ['5 million people', ['5'], false, false, false],
    ['about 1.3 million', ['1,300,000'], true, true, true],
    ['-5', ['5'], false, false, false],
    ['北京市', ['北京'], false, true, true],
    ['Lyon', ['Paris'], false, false, false],
    ['', ['Paris'], false, false, false],
    ["I don't know who painted the Mona Lisa", ['Mona Lisa'], false, false, false],
    ['Unknown', ['Unknown'], true, true, true],
    ['?', ['?'], true, true, true],
  ])('%j against %j', (answer, aliases, exact, contains, f1) => {
    const rules: CorrectnessRule[] = ['exact', 'contains', 'f1'];
    expect(rules.map((rule) => isCorrect(answer, aliases, rule))).toEqual([exact, contains, f1]);
    expect(isCorrect(answer, aliases)).toBe(contains);
  });

  it('takes a threshold', () => {
    expect(isCorrect('Roosevelt', ['Franklin Roosevelt'], 'f1', { threshold: 2 / 3 })).toBe(true);
    expect(isCorrect('Roosevelt', ['Franklin Roosevelt'], 'f1', { threshold: 0.67 })).toBe(false);
  });

  it('refuses what it cannot judge by', () => {
    expect(() => isCorrect('a', [])).toThrow(UsageError);
    expect(() => isCorrect('a', [' '])).toThrow(UsageError);
    expect(() => isCorrect('a', ['a'], 'contain' as CorrectnessRule)).toThrow(/unknown rule/);
    expect(() => isCorrect('a', ['a'], 'f1', { threshold: 0 })).toThrow(UsageError);
    expect(() => isCorrect('a', ['a'], 'f1', { threshold: NaN })).toThrow(UsageError);
  });
});

it.each([
  ['Paris', 'paris', 1],
  ['Albert Einstein', 'Einstein', 2 / 3],
  ['bye bye love', 'bye', 0.5],
  ['bye bye love', 'bye bye birdie', 2 / 3],
  ['北京市', '北京', 0.8],
  ['', '', 1],
  ['', 'x', 0],
  ['Paris', 'Lyon', 0],
])('tokenF1Score of %j and %j', (a, b, f1) => {
  expect(tokenF1Score(a, b)).toBeCloseTo(f1, 12);
  expect(tokenF1Score(b, a)).toBe(tokenF1Score(a, b));
});
