import { describe, expect, it } from 'vitest';
import { capitalize, cleanHellaswag, mathOptions, SOURCES } from '../../src/data/sources';
import { RECIPES } from '../../src/evaluate/recipes';

const choices = { text: ['red', 'green', 'blue'], label: ['A', 'B', 'C'] };

/** A row as the hub has it, with columns that are not read left out, and what becomes of it. */
const cases: [string, object, object][] = [
  [
    'arc_easy',
    { id: 'x1', question: 'Which?', choices, answerKey: 'C' },
    { id: 'x1', question: 'Which?', choices: ['red', 'green', 'blue'], answer: 2 },
  ],
  [
    'arc_challenge',
    { id: 'x2', question: 'Which?', choices: { text: ['up', 'down'], label: ['1', '2'] }, answerKey: '2' },
    { id: 'x2', question: 'Which?', choices: ['up', 'down'], answer: 1 },
  ],
  [
    'openbookqa',
    { id: '7-1', question_stem: 'Leaves are', choices, answerKey: ' B' },
    { id: '7-1', question: 'Leaves are', choices: ['red', 'green', 'blue'], answer: 1 },
  ],
  [
    'hellaswag',
    {
      activity_label: 'Washing up',
      ctx_a: 'A man fills a sink. [header] How to wash [title] Begin.',
      ctx_b: 'he TAKES a plate',
      endings: [' and dries it. ', 'sings [substeps] a  song.'],
      label: '1',
    },
    {
      question: 'Washing up: A man fills a sink. How to wash. Begin. He takes a plate',
      choices: ['and dries it.', 'sings a song.'],
      answer: 1,
    },
  ],
  [
    'piqa',
    { goal: 'Open a jar', sol1: 'turn the lid', sol2: 'turn the table', label: 0n },
    { question: 'Open a jar', choices: ['turn the lid', 'turn the table'], answer: 0 },
  ],
  [
    'winogrande',
    { sentence: 'The cup fell off the shelf because the _ was loose.', option1: 'cup', option2: 'shelf', answer: '2' },
    { question: 'The cup fell off the shelf because the _ was loose.', choices: ['cup', 'shelf'], answer: 1 },
  ],
  [
    'mmlu',
    { question: '2 + 2 = ?', subject: 'elementary_mathematics', choices: ['3', '4', '5', '6'], answer: 1n },
    { question: '2 + 2 = ?', choices: ['3', '4', '5', '6'], answer: 1, subject: 'elementary_mathematics' },
  ],
  [
    'medmcqa',
    { id: 'm-1', question: 'Where?', opa: 'liver', opb: 'lung', opc: 'skin', opd: 'bone', cop: 3n, exp: null },
    { id: 'm-1', question: 'Where?', choices: ['liver', 'lung', 'skin', 'bone'], answer: 3 },
  ],
  [
    'commonsense_qa',
    { id: 'c1', question: 'Where is milk?', question_concept: 'milk', choices, answerKey: 'A' },
    { id: 'c1', question: 'Where is milk?', choices: ['red', 'green', 'blue'], answer: 0 },
  ],
  [
    'mathqa',
    { Problem: 'what is 6 x 4 ?', options: 'a ) 20 , b ) 22 , c ) 24 , d ) 26 , e ) none of these', correct: 'c' },
    { question: 'what is 6 x 4 ?', choices: ['20', '22', '24', '26', 'none of these'], answer: 2 },
  ],
  [
    'boolq',
    { question: 'is snow cold', passage: 'Snow is ice.', idx: 4, label: 1n },
    { question: 'is snow cold', choices: ['no', 'yes'], answer: 1, passage: 'Snow is ice.' },
  ],
  [
    'truthfulqa_mc1',
    { question: 'Do fish fly?', mc1_targets: { choices: ['All do.', 'Some glide.'], labels: [0, 1] } },
    { question: 'Do fish fly?', choices: ['All do.', 'Some glide.'], answer: 1 },
  ],
  [
    'rte',
    { sentence1: 'It opens at nine.', sentence2: 'It is open at noon.', label: 0n, idx: 0 },
    { premise: 'It opens at nine.', hypothesis: 'It is open at noon.', label: 0 },
  ],
  ['sst2', { sentence: 'a warm film ', label: 1n, idx: 0 }, { text: 'a warm film ', label: 1 }],
  ['nq_open', { question: 'who flew first', answer: ['A', 'B'] }, { question: 'who flew first', answers: ['A', 'B'] }],
  [
    'popqa',
    { id: 7n, question: 'Who?', possible_answers: '["A", "B"]', s_pop: 12n, o_pop: 3n, subj: 'x' },
    { id: 7, question: 'Who?', answers: ['A', 'B'], s_pop: 12, o_pop: 3 },
  ],
  [
    'triviaqa',
    { question_id: 'tc_1', question: 'Who?', answer: { value: 'A', aliases: ['A', 'B'], type: 'WikipediaEntity' } },
    { id: 'tc_1', question: 'Who?', answers: ['A', 'B'] },
  ],
  [
    'alpaca',
    { instruction: 'Add.', input: '1 and 1', output: '2', text: 'Below …' },
    { instruction: 'Add.', input: '1 and 1', output: '2' },
  ],
  ['tweeteval_sentiment', { text: 'Best day!', label: 2n }, { text: 'Best day!', label: 2 }],
];

describe('the sources', () => {
  it('are those of every task that needs rows, in its folder, with the split to test on', () => {
    const tasks = Object.keys(RECIPES).filter((name) => name !== 'starter' && name !== 'mcqa'); // drawn from others
    const others = ['nq_open', 'popqa', 'triviaqa', 'alpaca']; // answered in one's own words, and learnt from
    expect(Object.keys(SOURCES).sort()).toEqual([...tasks, ...others].sort());
    expect(cases.map(([name]) => name).sort()).toEqual([...tasks, ...others].sort());
    for (const name of tasks) {
      expect(SOURCES[name]?.folder).toBe(RECIPES[name]?.folder);
      expect(Object.keys(SOURCES[name]!.splits)).toContain(RECIPES[name]?.splits[0]);
    }
  });

  it.each(cases)('turn a row of %s', (name, row, expected) => {
    expect(SOURCES[name]?.convert(row)).toEqual(expected);
    expect(Object.keys(expected)).toEqual(
      expect.arrayContaining([...(SOURCES[name]?.fields ?? ['question', 'choices', 'answer'])]),
    );
  });

  it.each(cases)('refuse a row of %s without what is read', (name) => {
    expect(() => SOURCES[name]?.convert({ id: 'x' })).toThrow(expect.objectContaining({ name: 'ZodError' }));
  });

  it('leave a row without an answer to be seen and left out by loadTask', () => {
    expect(SOURCES['arc_easy']?.convert({ id: 'x', question: '?', choices, answerKey: '' })).toMatchObject({
      answer: -1,
    });
    expect(() => SOURCES['popqa']?.convert({ id: 1, question: '?', possible_answers: '[', s_pop: 1, o_pop: 1 })).toThrow('is not a list'); // prettier-ignore
    expect(() => SOURCES['piqa']?.convert({ goal: 'g', sol1: 'a', sol2: 'b', label: '' })).toThrow('is not a number');
  });
});

// What Python 3.11 and lm-evaluation-harness 0.4.13 make of them.
describe('texts, as lm-evaluation-harness has them', () => {
  it.each([
    ['', ''],
    ['he IS Here', 'He is here'],
    ['[title] A', '[title] a'],
    ['ßA', 'Ssa'],
    ['ΑΣ', 'Ας'],
    ['\u{10428}\u{10400}', '\u{10400}\u{10428}'],
  ])('capitalises %j', (text, expected) => expect(capitalize(text)).toBe(expected));

  it.each([
    ['  a  b   c ', 'a b  c'],
    ['Fix a roof [title] Look [step] up [title]now', 'Fix a roof. Look up. now'],
    ['an [open bracket', 'an [open bracket'],
    ['two [a\nb] lines', 'two [a\nb] lines'],
  ])('cleans %j', (text, expected) => expect(cleanHellaswag(text)).toBe(expected));

  it.each([
    ['a ) 1 , b ) 2 , c ) 3 , d ) 4 , e ) 5', ['1', '2', '3', '4', '5']],
    ['a ) rs . 1,000 , b ) rs . 2,000 , c ) x , d ) y , e ) ', ['rs . 1,000', 'rs . 2,000', 'x', 'y', '']],
    ['a ) 1 , b ) 2 , e ) 3 ,', ['1', '2', '3']],
    ['a ) 1 , e ) 2\n', ['1', '2']],
    ['none', []],
  ])('takes %j apart', (line, expected) => expect(mathOptions(line)).toEqual(expected));
});
