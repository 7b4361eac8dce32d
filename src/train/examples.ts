import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { readJsonl } from '../base/files';
import {
  alpacaPrompt,
  letterPrompt,
  letterTokens,
  questionPrompt,
  readOpenQuestions,
  readQuestions,
  withLead,
  type ChoiceQuestion,
  type Instruction,
  type OpenQuestion,
  type Tokenizer,
} from '../data';

/** A text with supervised positions: the logits after token `positions[i]` should give `labels[i]`. */
export interface Example {
  ids: readonly number[];
  positions: readonly number[];
  labels: readonly number[];
  /** How many of the choice tokens are options here; all when absent. */
  options?: number;
  /** What share of its probability each label gives away to the others (label smoothing); none when absent. */
  smoothing?: readonly number[];
  /** The row it comes from. */
  id?: string;
}

/** Rows to learn from: multiple-choice questions, open questions with all that is right, or instructions with their answers. */
export interface TrainingData {
  file: string;
  kind: 'questions' | 'open' | 'instructions';
  questions: ChoiceQuestion[];
  open: OpenQuestion[];
  instructions: Instruction[];
  /** Rows that cannot be used, with the reason. */
  skipped: { line: number; reason: string }[];
}

const INSTRUCTION = z.object({
  instruction: z.string().refine((text) => text.trim() !== '', 'is blank'),
  input: z.string().default(''),
  output: z.string().refine((text) => text.trim() !== '', 'is blank'),
  id: z.union([z.string(), z.number()]).optional(),
});

/**
 * Reads a file of questions `{question, choices, answer}`, of open questions `{question, answers}` or of instructions
 * `{instruction, input, output}` (Alpaca's format); the first row tells which. Rows that miss a field or have an empty one are listed in `skipped`.
 * @throws CalmError when the file is missing, empty or not JSON lines, or no row can be used
 */
export async function readTraining(file: string, { limit = Infinity }: { limit?: number } = {}): Promise<TrainingData> {
  for await (const { value } of readJsonl(file)) {
    const has = (field: string) => typeof value === 'object' && value !== null && field in value;
    if (has('instruction')) break;
    const most = { invalid: 'skip' as const, ...(limit < Infinity && { limit }) };
    if (has('answers') && !has('choices')) {
      const { questions: open, skipped } = await readOpenQuestions(file, most);
      return { file, kind: 'open', questions: [], open, instructions: [], skipped };
    }
    const { questions, skipped } = await readQuestions(file, most);
    return { file, kind: 'questions', questions, open: [], instructions: [], skipped };
  }
  const instructions: Instruction[] = [];
  const skipped: TrainingData['skipped'] = [];
  for await (const { value, line } of readJsonl(file)) {
    const row = INSTRUCTION.safeParse(value);
    if (row.success) {
      instructions.push({ ...row.data, id: String(row.data.id ?? `line ${line}`) });
      if (instructions.length >= limit) break;
    } else {
      const issue = row.error.issues[0]!;
      skipped.push({ line, reason: `field "${issue.path.join('.')}": ${issue.message}` });
    }
  }
  if (instructions.length === 0) {
    throw new CalmError(`${file}: no row can be used; line ${skipped[0]!.line}: ${skipped[0]!.reason}`, {
      remedy:
        'expected rows {"instruction", "input", "output"}, {"question", "choices", "answer"} or {"question", "answers"}',
    });
  }
  return { file, kind: 'instructions', questions: [], open: [], instructions, skipped };
}

export interface ExampleOptions {
  /** How a question is put: the letter of the right option after all of them, or the option itself. */
  format: 'letter' | 'cloze';
  /** Tokens that the model can read. */
  maxPositions: number;
}

/** The examples of some rows; those beyond the model's context are left out, never cut, and listed in `tooLong`. */
export interface Examples {
  examples: Example[];
  /** The token of each letter, ` A` and on; letters only. */
  letters?: Int32Array;
  tooLong: string[];
}

/**
 * Turns rows into token ids with supervised positions: the answer's letter, or every token of the answer (and the end of
 * sequence after an instruction's output or the first of an open question's answers).
 * @throws CalmError when no example fits the model, or a letter is not one token
 */
export function toExamples(
  data: TrainingData,
  tokenizer: Tokenizer,
  { format, maxPositions }: ExampleOptions,
): Examples {
  const tooLong: string[] = [];
  const most = Math.max(2, ...data.questions.map(({ choices }) => choices.length));
  const letters =
    data.kind === 'questions' && format === 'letter' ? letterTokens(tokenizer, most, 'Answer:') : undefined;
  const end = tokenizer.eosId === undefined ? [] : [tokenizer.eosId];
  const made = [
    ...data.questions.map((question): Example => {
      const { choices, answer, id } = question;
      if (letters) {
        const ids = tokenizer.encode(letterPrompt(question));
        return { id, ids, positions: [ids.length - 1], labels: [letters[answer]!], options: choices.length };
      }
      const prompt = questionPrompt(question);
      return { id, ...continued(tokenizer.encode(prompt), encodeOn(tokenizer, withLead(prompt, choices[answer]!))) };
    }),
    ...data.open.map((question): Example => {
      const prompt = questionPrompt(question);
      const answer = [...encodeOn(tokenizer, withLead(prompt, question.answers[0]!)), ...end];
      return { id: question.id, ...continued(tokenizer.encode(prompt), answer) };
    }),
    ...data.instructions.map((row): Example => {
      const output = [...encodeOn(tokenizer, row.output), ...end];
      return { id: row.id, ...continued(tokenizer.encode(alpacaPrompt(row)), output) };
    }),
  ];
  const examples = made.filter(({ ids, id }) => {
    if (ids.length > maxPositions) tooLong.push(id!);
    return ids.length <= maxPositions;
  });
  if (examples.length === 0) {
    throw new CalmError(`${data.file}: every row exceeds the model's ${maxPositions} tokens`, {
      remedy: 'use shorter rows or another model',
    });
  }
  return { examples, tooLong, ...(letters && { letters }) };
}

const encodeOn = (tokenizer: Tokenizer, text: string) => tokenizer.encode(text, { addBos: false });

/** A prompt and what follows it, all of which is supervised; its last token is only predicted, never read. */
function continued(prompt: readonly number[], answer: readonly number[]): Omit<Example, 'id'> {
  if (prompt.length === 0 || answer.length === 0) throw new UsageError('an example needs a prompt and an answer');
  return {
    ids: [...prompt, ...answer.slice(0, -1)],
    positions: answer.map((_, i) => prompt.length - 1 + i),
    labels: answer,
  };
}
