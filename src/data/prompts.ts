import { CalmError, UsageError } from '../base/errors';
import type { ChoiceQuestion } from './questions';
import type { Tokenizer } from './tokenizer';

export const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** The question (after its passage, where it has one), one line `A. …` per option, then `Answer:`. */
export function letterPrompt({ passage, question, choices }: ChoiceQuestion): string {
  const options = choices.map((choice, i) => `${LETTERS[i]}. ${choice}`);
  return [...(passage ? [passage] : []), question, ...options, 'Answer:'].join('\n');
}

/** The blank between a prompt and what answers it, unless the prompt ends with one. */
export function withLead(prompt: string, answer: string): string {
  return /\s$/.test(prompt) ? answer : ` ${answer}`;
}

/** Worked examples, each with its answer and a blank line after it, before a prompt. */
export function withExamples(examples: readonly { prompt: string; answer: string }[], prompt: string): string {
  const shown = examples.map((example) => example.prompt + withLead(example.prompt, example.answer));
  return [...shown, prompt].join('\n\n');
}

/**
 * The vocabulary entry of each letter as it follows a prompt: ` A` after text, `A` after a line break or blank.
 * @throws CalmError when a letter is not one token in this tokenizer
 */
export function letterTokens(tokenizer: Tokenizer, count: number, promptEnd: string): Int32Array {
  if (count > LETTERS.length) throw new UsageError(`${count} options are more than there are letters`);
  return Int32Array.from({ length: count }, (_, i) => {
    const letter = withLead(promptEnd, LETTERS[i] as string);
    const ids = tokenizer.encode(letter, { addBos: false });
    if (ids.length !== 1) {
      throw new CalmError(`"${letter}" is ${ids.length} tokens in this tokenizer`, {
        remedy: 'score by cloze instead',
      });
    }
    return ids[0] as number;
  });
}

/** The question after `Question:`, and `Answer:`; lm-evaluation-harness's prompt of most tasks. */
export function questionPrompt({ passage, question }: Pick<ChoiceQuestion, 'passage' | 'question'>): string {
  return `${passage ? `${passage}\n` : ''}Question: ${question}\nAnswer:`;
}

/** An instruction, what it is applied to (if anything), and the answer to it. */
export interface Instruction {
  id: string;
  instruction: string;
  input: string;
  output: string;
}

/** Alpaca's prompt (Taori et al. 2023); the output follows it directly. */
export function alpacaPrompt({ instruction, input }: Instruction): string {
  const context = input === '' ? '' : ', paired with an input that provides further context';
  const given = input === '' ? '' : `\n\n### Input:\n${input}`;
  return (
    `Below is an instruction that describes a task${context}. ` +
    `Write a response that appropriately completes the request.\n\n### Instruction:\n${instruction}${given}\n\n### Response:\n`
  );
}
