import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { readJsonl } from '../base/files';
import { unknownName } from '../base/pick';
import { shortHash } from '../base/hash';

/** A question with 2 to 26 options, one of them right. */
export interface ChoiceQuestion {
  id: string;
  question: string;
  choices: string[];
  /** Index of the right one in `choices`. */
  answer: number;
  topic?: string;
  /** A text that the question is about. */
  passage?: string;
}

/** A question answered in free text; each of `answers` is right. */
export interface OpenQuestion {
  id: string;
  question: string;
  answers: string[];
  topic?: string;
  passage?: string;
}

export interface ReadOptions {
  /** Stop after this many questions. */
  limit?: number;
  /** What to do with rows that cannot be used: fail (the default), or leave them out and list them in `skipped`. */
  invalid?: 'error' | 'skip';
  /** Makes rows of another layout into the one that is read; what it leaves is checked as ever. */
  convert?: (row: Record<string, unknown>) => unknown;
}

export interface Questions<Q> {
  questions: Q[];
  /** Rows that could not be used. */
  skipped: { line: number; reason: string }[];
}

const text = z.string().refine((value) => value.trim() !== '', 'is blank');
const common = {
  id: z.union([z.string().min(1), z.int()]).nullish(),
  question: text,
  passage: z.string().nullish(),
  topic: z.string().nullish(),
  subject: z.string().nullish(),
  category: z.string().nullish(),
};

const choiceRow = z
  .object({
    ...common,
    choices: z.array(text).min(2, 'has fewer than 2 options').max(26, 'has more than 26 options'),
    answer: z.int('is not an integer'),
  })
  .superRefine(({ choices, answer }, context) => {
    if (answer < 0 || answer >= choices.length) {
      context.addIssue({
        code: 'custom',
        path: ['answer'],
        message: `${answer} is not the index of one of ${choices.length} options (0 to ${choices.length - 1})`,
      });
    }
    const trimmed = choices.map((choice) => choice.trim());
    const twice = trimmed.find((choice, index) => trimmed.indexOf(choice) !== index);
    if (twice !== undefined) {
      context.addIssue({ code: 'custom', path: ['choices'], message: `has the option ${JSON.stringify(twice)} twice` });
    }
  });

const openRow = z.object({ ...common, answers: z.array(text).min(1, 'is empty') });

/**
 * Reads multiple-choice questions from JSON lines `{"question", "choices", "answer"}`, and `"id"`, `"topic"` (or
 * `"subject"`, `"category"`) and `"passage"` where there are any. Texts are kept as they are.
 * @throws CalmError in one line that names file, line and field: for a file that is missing (the nearest names are
 *   suggested), empty or not JSON lines, and for invalid rows unless they are to be skipped
 */
export function readQuestions(file: string, options?: ReadOptions): Promise<Questions<ChoiceQuestion>> {
  return readRows(file, choiceRow, options, choiceOf);
}

/** Questions from rows that are at hand; `name` is what errors call them, the first row being their line 1. */
export function questionsOf(name: string, rows: readonly unknown[], options?: ReadOptions): Questions<ChoiceQuestion> {
  const collected = collect(name, choiceRow, options, choiceOf);
  rows.some((value, i) => collected.add(value, i + 1));
  return collected.end();
}

/** Reads questions with free-text answers from JSON lines `{"question", "answers"}`, as `readQuestions` does. */
export function readOpenQuestions(file: string, options?: ReadOptions): Promise<Questions<OpenQuestion>> {
  return readRows(file, openRow, options, ({ answers }) => ({ answers }));
}

/** As `questionsOf`, for questions with free-text answers. */
export function openQuestionsOf(
  name: string,
  rows: readonly unknown[],
  options?: ReadOptions,
): Questions<OpenQuestion> {
  const collected = collect(name, openRow, options, ({ answers }) => ({ answers }));
  rows.some((value, i) => collected.add(value, i + 1));
  return collected.end();
}

/** First 16 hexadecimal digits of the SHA-256 of what is asked and what is right, whatever its id, topic and file. */
export function docHash(doc: Omit<ChoiceQuestion, 'id'> | Omit<OpenQuestion, 'id'>): string {
  const { question, passage = null } = doc;
  const right = 'choices' in doc ? { choices: doc.choices, answer: doc.answer } : { answers: doc.answers };
  const content = JSON.stringify({ question, passage, ...right });
  return shortHash(content);
}

type Row = z.output<typeof openRow> | z.output<typeof choiceRow>;
type Kept = Pick<ChoiceQuestion, 'id' | 'question' | 'topic' | 'passage'>;

const choiceOf = ({ choices, answer }: z.output<typeof choiceRow>) => ({ choices, answer });

async function readRows<R extends Row, A extends object>(
  file: string,
  schema: z.ZodType<R>,
  options: ReadOptions | undefined,
  answerOf: (row: R) => A,
): Promise<Questions<Kept & A>> {
  const collected = collect(file, schema, options, answerOf);
  if (!fs.existsSync(file)) throw missing(file);
  for await (const { value, line } of readJsonl(file)) {
    if (collected.add(value, line)) break;
  }
  return collected.end();
}

/** Takes rows one by one (`add` says when there are enough) and gives the questions at the `end`. */
function collect<R extends Row, A extends object>(
  file: string,
  schema: z.ZodType<R>,
  { limit = Infinity, invalid = 'error', convert }: ReadOptions = {},
  answerOf: (row: R) => A,
): { add: (value: unknown, line: number) => boolean; end: () => Questions<Kept & A> } {
  if (!(limit >= 1) || (limit % 1 !== 0 && limit !== Infinity)) {
    throw new UsageError(`limit must be a positive integer, got ${limit}`);
  }
  const questions: (Kept & A)[] = [];
  const skipped: { line: number; reason: string }[] = [];
  const lineOf = new Map<string, number>();
  const add = (value: unknown, line: number): boolean => {
    const isObject = typeof value === 'object' && value !== null;
    const row = schema.safeParse(convert && isObject ? convert(value as Record<string, unknown>) : value);
    const id = row.success ? String(row.data.id ?? `${path.parse(file).name}-${line}`) : '';
    if (!row.success) {
      skipped.push({ line, reason: reasonOf(row.error) });
    } else if (lineOf.has(id)) {
      skipped.push({ line, reason: `field "id": ${JSON.stringify(id)} is also that of line ${lineOf.get(id)}` });
    } else {
      lineOf.set(id, line);
      const { question, passage } = row.data;
      const topic = row.data.topic ?? row.data.subject ?? row.data.category;
      const content = { question, ...(passage ? { passage } : {}), ...answerOf(row.data) };
      questions.push({ id, ...content, ...(topic ? { topic } : {}) });
    }
    return questions.length >= limit;
  };
  const end = () => {
    const [first] = skipped;
    if (first && (invalid === 'error' || questions.length === 0)) {
      const more = skipped.length > 1 ? ` (and ${skipped.length - 1} more invalid rows)` : '';
      throw new CalmError(`${file}, line ${first.line}: ${first.reason}${more}`, {
        remedy: 'correct the rows or leave them out',
      });
    }
    return { questions, skipped };
  };
  return { add, end };
}

function reasonOf(error: z.ZodError): string {
  const issue = error.issues[0];
  const field = issue?.path.length ? `field "${issue.path.join('.')}"` : 'the row';
  return `${field}: ${issue?.message ?? 'not understood'}`;
}

/** Names the first part of the path that does not exist, and the nearest names beside it. */
function missing(file: string): CalmError {
  let absent = path.resolve(file);
  while (!fs.existsSync(path.dirname(absent))) absent = path.dirname(absent);
  const folder = path.dirname(absent);
  const name = path.basename(absent);
  const isFile = absent === path.resolve(file);
  const beside = fs.statSync(folder).isDirectory() ? fs.readdirSync(folder, { withFileTypes: true }) : [];
  const names = beside.filter((entry) => entry.isDirectory() !== isFile).map((entry) => entry.name);
  return new CalmError(`cannot read ${file}: ${folder} has no ${isFile ? 'file' : 'folder'} "${name}"`, {
    remedy: names.length > 0 ? unknownName('name', name, names).remedy : 'check the path',
  });
}
