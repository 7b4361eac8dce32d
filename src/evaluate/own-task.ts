import * as path from 'node:path';
import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { readJson } from '../base/files';
import {
  compileTemplate,
  firstOf,
  LETTERS,
  questionPrompt,
  questionsOf,
  readQuestions,
  type ChoiceQuestion,
} from '../data';
import type { Form, Task } from './types';

const rows = z.union([z.string().min(1), z.array(z.record(z.string(), z.unknown())).min(1)]);

/** A task of one's own, as an object or a JSON file. Templates are Jinja. */
const taskSpec = z.strictObject({
  name: z.string().min(1),
  version: z.int().default(1),
  /** The rows themselves, or a `.jsonl` file of them, seen from the JSON file. */
  rows,
  /** Templates over a row's fields. */
  question: z.string().default('{{question}}'),
  passage: z.string().optional(),
  topic: z.string().optional(),
  id: z.string().optional(),
  /** A template for each option, or the name of a field that lists them. */
  choices: z.union([z.string().min(1), z.array(z.string()).min(2)]).default('choices'),
  answer: z.string().default('{{answer}}'),
  /** What the answer is: the option's index from 0, its letter, or its text. */
  answer_is: z.enum(['index', 'letter', 'text']).default('index'),
  /** Templates over question, passage, topic and choices: what the options continue, and what stands before it all. */
  prompt: z.string().optional(),
  description: z.string().optional(),
  /** What is scored after the prompt, per option, over the same; the options where absent. */
  continuations: z.array(z.string()).min(2).optional(),
  /** Rows that worked examples are drawn from; those of the task where absent. */
  examples: rows.optional(),
});

export type TaskSpec = z.input<typeof taskSpec>;

/**
 * Makes a task of one's own from rows of any layout.
 * @param folder what paths of rows start from
 * @throws UsageError that names the field or template at fault; CalmError when no row can be used
 */
export async function defineTask(
  spec: TaskSpec,
  {
    folder = '.',
    limit,
    shots = 0,
    where = 'the task',
  }: { folder?: string; limit?: number; shots?: number; where?: string } = {},
): Promise<Task> {
  const parsed = taskSpec.safeParse(spec);
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    const remedy = `its fields are ${Object.keys(taskSpec.shape).join(', ')}`;
    throw new UsageError(`${where}: ${issue.path.join('.')} ${issue.message}`.replace(':  ', ': '), { remedy });
  }
  const { name, version, ...own } = parsed.data;
  const template = (field: string, text: string) => compileTemplate(`${where}'s ${field}`, text);
  const convert = converter(own, template);
  const read = async (from: z.output<typeof rows>) =>
    typeof from === 'string'
      ? readQuestions(path.resolve(folder, from), { convert, invalid: 'skip' })
      : questionsOf(name, from, { convert, invalid: 'skip' });
  const { questions, skipped } = await read(own.rows);
  const pool = shots > 0 ? await read(own.examples ?? own.rows) : undefined;
  const form = formOf(own, template);
  const task: Task = {
    name,
    version,
    source: typeof own.rows === 'string' ? path.resolve(folder, own.rows) : where,
    split: 'all',
    docs: firstOf(questions, limit),
    skipped,
    ...form,
    ...(pool && { fewShot: { shots, split: own.examples ? 'examples' : 'all', pool: pool.questions } }),
  };
  // A fault of a template shows at the first item, not in the middle of an evaluation.
  const [first] = task.docs;
  if (first) for (const part of [form.prompt, form.continuations, form.description]) part?.(first);
  return task;
}

/** Reads a task of one's own from a JSON file, see `TaskSpec`. */
export async function readTask(file: string, options: { limit?: number; shots?: number } = {}): Promise<Task> {
  const spec = readJson(file);
  if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) {
    throw new CalmError(`${file} is not a task: it holds no JSON object`);
  }
  const named = { name: path.parse(file).name, ...spec } as TaskSpec;
  return defineTask(named, { ...options, folder: path.dirname(file), where: path.basename(file) });
}

type Spec = Omit<z.output<typeof taskSpec>, 'name' | 'version'>;
type Template = (field: string, text: string) => ReturnType<typeof compileTemplate>;

function converter(spec: Spec, template: Template): (row: Record<string, unknown>) => unknown {
  const { choices, answer_is: kind } = spec;
  const question = template('question', spec.question);
  const answer = template('answer', spec.answer);
  const listed = typeof choices === 'string' ? undefined : choices.map((text) => template('choices', text));
  const optional = (['passage', 'topic', 'id'] as const).flatMap((field) => {
    const text = spec[field];
    return text === undefined ? [] : [[field, template(field, text)] as const];
  });
  return (row) => {
    const options = listed ? listed.map((one) => one.render(row)) : row[choices as string];
    const text = answer.render(row).trim();
    const index = {
      index: () => (/^\d+$/.test(text) ? Number(text) : -1),
      letter: () => (text.length === 1 ? LETTERS.indexOf(text.toUpperCase()) : -1),
      text: () => (Array.isArray(options) ? options.findIndex((option) => String(option).trim() === text) : -1),
    }[kind]();
    return {
      ...row,
      question: question.render(row),
      choices: Array.isArray(options) ? options.map(String) : options,
      answer: index,
      ...Object.fromEntries(optional.map(([field, one]) => [field, one.render(row)])),
    };
  };
}

function formOf(spec: Spec, template: Template): Form {
  const { prompt, description, continuations } = spec;
  const fields = ({ question, passage = '', topic = '', choices }: ChoiceQuestion) => ({
    question,
    passage,
    topic,
    choices,
  });
  const over = (field: string, text: string) => {
    const compiled = template(field, text);
    return (doc: ChoiceQuestion) => compiled.render(fields(doc));
  };
  const texts = continuations?.map((text) => over('continuations', text));
  return {
    prompt: prompt === undefined ? questionPrompt : over('prompt', prompt),
    ...(description !== undefined && { description: over('description', description) }),
    ...(texts && {
      continuations: (doc: ChoiceQuestion) => {
        if (texts.length < doc.choices.length) {
          throw new UsageError(
            `${doc.id} has ${doc.choices.length} options, but there are ${texts.length} continuations`,
          );
        }
        return texts.slice(0, doc.choices.length).map((text) => text(doc));
      },
    }),
  };
}
