import { UsageError } from '../base/errors';
import type { Random } from '../engine/random';
import type { Instruction } from './prompts';
import type { ChoiceQuestion } from './questions';

/**
 * Four-option questions out of instructions, as C.2 of the CALM paper mentions them: the options are an instruction's own
 * output and three outputs of others, and the right one is always A. The paper calls label smoothing on them invalid for
 * that reason; temperatures fitted on them come out low for the same one.
 * @throws UsageError when there are fewer than four different outputs
 */
export function syntheticQuestions(instructions: readonly Instruction[], random: Random): ChoiceQuestion[] {
  const outputs = [...new Set(instructions.map(({ output }) => output.trim()))];
  if (outputs.length < 4) throw new UsageError(`${outputs.length} different outputs do not make four options`);
  return instructions.map(({ id, instruction, input, output }) => {
    const stream = random.stream(id);
    const choices = [output.trim()];
    while (choices.length < 4) {
      const other = outputs[stream.integer(outputs.length)]!;
      if (!choices.includes(other)) choices.push(other);
    }
    return { id, question: input === '' ? instruction : `${instruction}\n${input}`, choices, answer: 0 };
  });
}
