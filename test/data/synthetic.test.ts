import { expect, it } from 'vitest';
import { syntheticQuestions } from '../../src/data';
import { Random } from '../../src/engine/random';

const row = (i: number) => ({
  id: `${i}`,
  instruction: `do ${i}`,
  input: i % 2 ? `with ${i}` : '',
  output: ` out ${i % 7}`,
});
const rows = Array.from({ length: 20 }, (_, i) => row(i));

it('asks for an instruction’s output among those of others, A being right', () => {
  const made = syntheticQuestions(rows, Random.seed(1));
  made.forEach(({ id, question, choices, answer }, i) => {
    expect([id, answer, choices[0]]).toEqual([`${i}`, 0, `out ${i % 7}`]);
    expect(question).toBe(i % 2 ? `do ${i}\nwith ${i}` : `do ${i}`);
    expect(new Set(choices).size).toBe(4);
  });
  // The options of a row do not depend on its neighbours, only on the outputs there are.
  expect(syntheticQuestions(rows, Random.seed(1))).toEqual(made);
  expect(syntheticQuestions(rows, Random.seed(2))).not.toEqual(made);
});

it('refuses too few different outputs', () => {
  expect(() => syntheticQuestions(rows.slice(0, 3), Random.seed(1))).toThrow('3 different outputs');
});
