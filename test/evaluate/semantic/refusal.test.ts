import { describe, expect, it } from 'vitest';
import { isEmptyAnswer, isRefusal } from '../../../src/evaluate/semantic';

describe('isRefusal', () => {
  it.each([
    "I don't know",
    'I don’t know.',
    'I DO NOT KNOW THE ANSWER',
    "I really don't know who wrote it.",
    "I'm not sure",
    'I am not entirely sure about that.',
    "I'm unsure.",
    'Not sure',
    'unknown',
    'Unknown.',
    'The answer is unknown.',
    'Answer: unknown',
    'A: N/A',
    'It is unknown.',
    'It is not known who she was.',
    'It is unclear.',
    'Not known',
    'N/A',
    'n/a',
    'n/a.',
    'Not applicable',
    'Not available.',
    'Not specified',
    'Information not available',
    'No information available.',
    'Not enough information',
    'Insufficient information',
    'no idea',
    'I have no idea.',
    'idk',
    'Dunno',
    'No answer',
    'Not given',
    'I cannot answer this question.',
    "I can't say for certain.",
    'Cannot be determined',
    'I am unable to determine the author.',
    "I'm sorry, but I don't have information about that.",
    'Sorry, I cannot help with that.',
    "I'm sorry.",
    'Unfortunately, there is no information about her mother.',
    'As an AI language model, I do not have access to that.',
    'As a large language model, I cannot say.',
    'I do not have enough information to answer.',
    "I don't recall.",
    'No one knows',
    'Nobody really knows.',
    'The question is unclear.',
    'This question cannot be answered.',
    'Please provide more context.',
    "I don't know, but I can help you look for it.",
    "I'm not sure, but you could check the library.",
    '',
    '   ',
    '\n',
    '...',
    '…',
    '—',
    '-',
    '""',
    '___',
    '\u200b',
  ])('%j declines', (text) => expect(isRefusal(text)).toBe(true));

  it.each([
    'Paris',
    '0',
    'None',
    'Nobody',
    'No one',
    'Nothing',
    'No',
    'Na',
    'NA',
    'Unknown Pleasures',
    'Unknown Mortal Orchestra',
    'The Unknown Soldier',
    "I'm not sure, but I think it was Paris.",
    "I don't know, maybe Paris?",
    'I am not sure. It might be Lyon.',
    "I don't know, but my best guess is 1912.",
    'I think it is Paris',
    'Sorry Seems to Be the Hardest Word',
    'Sorrento',
    'Knowledge',
    'Not Afraid',
    'The Answer',
    'Sure',
    '?',
    '!',
    '🇨🇦',
    '不知火',
    'مصر',
  ])('%j is an answer', (text) => expect(isRefusal(text)).toBe(false));

  it('takes a guess that declines too for none', () => {
    expect(isRefusal("I don't know, but it is not known to anyone.")).toBe(true);
    expect(isRefusal('I am not sure, though.')).toBe(true);
  });

  it('is quick on long texts', () => {
    const started = performance.now();
    for (const text of ["i don't know ", 'sorry ', 'word ', 'the answer is ', '. ']) isRefusal(text.repeat(1000));
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

it('isEmptyAnswer tells silence from a refusal', () => {
  expect(['', ' ', '...', '—', '\u200b'].every(isEmptyAnswer)).toBe(true);
  expect(["I don't know", '?', '*', '0', '🙂', 'a'].some(isEmptyAnswer)).toBe(false);
});
