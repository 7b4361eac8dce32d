import * as path from 'node:path';
import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import { readJson } from '../base/files';
import {
  compileTemplate,
  firstOf,
  LETTERS,
  openQuestionsOf,
  questionPrompt,
  questionsOf,
  readOpenQuestions,
  readQuestions,
  type ChoiceQuestion,
  type Questions,
} from '../data';
import { exactMatch } from './generation';
import type { Form, GenerationTask, Task } from './types';

const rows = z.union([z.string().min(1), z.array(z.record(z.string(), z.unknown())).min(1)]);

/** What both kinds of task have. */
const common = {
  name: z.string().min(1),
  version: z.int().default(1),
  /** The rows themselves, or a `.jsonl` file of them, seen from the JSON file. */
  rows,
  /** Templates over a row's fields. */
  question: z.string().default('{{question}}'),
  passage: z.string().optional(),
  topic: z.string().optional(),
  id: z.string().optional(),
  /** Templates over question, passage and topic (and choices): what is answered, and what stands before it all. */
  prompt: z.string().optional(),
  description: z.string().optional(),
  /** Rows that worked examples are drawn from; those of the task where absent. */
  examples: rows.optional(),
};

/** A task of one's own, as an object or a JSON file. Templates are Jinja. */
const taskSpec = z.strictObject({
  ...common,
  /** A template for each option, or the name of a field that lists them. */
  choices: z.union([z.string().min(1), z.array(z.string()).min(2)]).default('choices'),
  answer: z.string().default('{{answer}}'),
  /** What the answer is: the option's index from 0, its letter, or its text. */
  answer_is: z.enum(['index', 'letter', 'text']).default('index'),
  /** What is scored after the prompt, per option, over the same; the options where absent. */
  continuations: z.array(z.string()).min(2).optional(),
});

export type TaskSpec = z.input<typeof taskSpec>;

/** A task of one's own that is answered in the model's own words. */
const generationSpec = z.strictObject({
  ...common,
  /** The name of a field that lists the right answers, or a template of the one that is. */
  answers: z.string().min(1).default('answers'),
  /** Texts that end an answer. */
  until: z.array(z.string().min(1)).min(1),
  max_new_tokens: z.int().min(1).default(64),
  /** What an answer may differ in and still match exactly. */
  exact_match: z
    .strictObject({
      ignore_case: z.boolean().optional(),
      ignore_punctuation: z.boolean().optional(),
      ignore_numbers: z.boolean().optional(),
      regexes_to_ignore: z.array(z.string()).optional(),
    })
    .default({}),
});

export type GenerationSpec = z.input<typeof generationSpec>;

interface Options {
  /** What paths of rows start from. */
  folder?: string;
  limit?: number;
  shots?: number;
  /** What errors call it. */
  where?: string;
}

function parse<S extends z.ZodObject>(schema: S, spec: unknown, where: string): z.output<S> {
  const parsed = schema.safeParse(spec);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const remedy = `its fields are ${Object.keys(schema.shape).join(', ')}`;
  throw new UsageError(`${where}: ${issue.path.join('.')} ${issue.message}`.replace(':  ', ': '), { remedy });
}

/**
 * Makes a task of one's own from rows of any layout.
 * @throws UsageError that names the field or template at fault; CalmError when no row can be used
 */
export async function defineTask(spec: TaskSpec, options: Options = {}): Promise<Task> {
  const { where = 'the task' } = options;
  const own = parse(taskSpec, spec, where);
  const template = (field: string, text: string) => compileTemplate(`${where}'s ${field}`, text);
  const reading = { convert: converter(own, template), invalid: 'skip' } as const;
  const form = formOf(own, template);
  const read = (file: string) => readQuestions(file, reading);
  const task: Task = { ...(await loaded(own, options, read, (all) => questionsOf(own.name, all, reading))), ...form };
  // A fault of a template shows at the first item, not in the middle of an evaluation.
  const [first] = task.docs;
  if (first) for (const part of [form.prompt, form.continuations, form.description]) part?.(first);
  return task;
}

/**
 * Makes a task of one's own whose questions are answered in the model's own words.
 * @throws UsageError that names the field or template at fault; CalmError when no row can be used
 */
export async function defineGenerationTask(spec: GenerationSpec, options: Options = {}): Promise<GenerationTask> {
  const { where = 'the task' } = options;
  const { until, max_new_tokens, exact_match, ...own } = parse(generationSpec, spec, where);
  const template = (field: string, text: string) => compileTemplate(`${where}'s ${field}`, text);
  const question = template('question', own.question);
  const optional = optionalFields(own, template);
  const listed = own.answers.includes('{') ? template('answers', own.answers) : undefined;
  const convert = (row: Record<string, unknown>) => ({
    ...row,
    question: question.render(row),
    answers: listed ? [listed.render(row)] : row[own.answers],
    ...optional(row),
  });
  const reading = { convert, invalid: 'skip' } as const;
  const read = (file: string) => readOpenQuestions(file, reading);
  const prompt = own.prompt === undefined ? undefined : template('prompt', own.prompt);
  const task: GenerationTask = {
    ...(await loaded(own, options, read, (all) => openQuestionsOf(own.name, all, reading))),
    prompt: prompt
      ? ({ question, passage = '', topic = '' }) => prompt.render({ question, passage, topic })
      : questionPrompt,
    ...(own.description !== undefined && { description: own.description }),
    until,
    maxNewTokens: max_new_tokens,
    metrics: { exact_match: exactMatch(exact_match) },
  };
  const [first] = task.docs;
  if (first) task.prompt(first);
  return task;
}

/** What both kinds of task are of their rows: questions, what was skipped, and examples where they are asked for. */
async function loaded<Q>(
  { name, version, rows: from, examples }: Pick<z.output<typeof taskSpec>, 'name' | 'version' | 'rows' | 'examples'>,
  { folder = '.', limit, shots = 0, where = 'the task' }: Options,
  ofFile: (file: string) => Promise<Questions<Q>>,
  ofRows: (rows: readonly unknown[]) => Questions<Q>,
) {
  const read = async (some: z.output<typeof rows>) =>
    typeof some === 'string' ? ofFile(path.resolve(folder, some)) : ofRows(some);
  const { questions, skipped } = await read(from);
  const pool = shots > 0 ? await read(examples ?? from) : undefined;
  return {
    name,
    version,
    source: typeof from === 'string' ? path.resolve(folder, from) : where,
    split: 'all',
    docs: firstOf(questions, limit),
    skipped,
    ...(pool && { fewShot: { shots, split: examples ? 'examples' : 'all', pool: pool.questions } }),
  };
}

/** Reads a task of one's own from a JSON file, see `TaskSpec` and `GenerationSpec`. */
export async function readTask(file: string, options: Options = {}): Promise<Task> {
  const spec = readSpec(file);
  if ('until' in spec) {
    throw new UsageError(`${file} is answered in the model's own words`, { remedy: 'use --scoring generate' });
  }
  return defineTask(spec as TaskSpec, { ...options, folder: path.dirname(file), where: path.basename(file) });
}

/** As `readTask`, for a task with `until`. */
export async function readGenerationTask(file: string, options: Options = {}): Promise<GenerationTask> {
  const spec = readSpec(file) as GenerationSpec;
  return defineGenerationTask(spec, { ...options, folder: path.dirname(file), where: path.basename(file) });
}

function readSpec(file: string): object {
  const spec = readJson(file);
  if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) {
    throw new CalmError(`${file} is not a task: it holds no JSON object`);
  }
  return { name: path.parse(file).name, ...spec };
}

type Spec = Omit<z.output<typeof taskSpec>, 'name' | 'version'>;
type Template = (field: string, text: string) => ReturnType<typeof compileTemplate>;

function converter(spec: Spec, template: Template): (row: Record<string, unknown>) => unknown {
  const { choices, answer_is: kind } = spec;
  const question = template('question', spec.question);
  const answer = template('answer', spec.answer);
  const listed = typeof choices === 'string' ? undefined : choices.map((text) => template('choices', text));
  const optional = optionalFields(spec, template);
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
      ...optional(row),
    };
  };
}

/** Those of a row's fields that have templates of their own. */
function optionalFields(spec: Pick<Spec, 'passage' | 'topic' | 'id'>, template: Template) {
  const fields = (['passage', 'topic', 'id'] as const).flatMap((field) => {
    const text = spec[field];
    return text === undefined ? [] : [[field, template(field, text)] as const];
  });
  return (row: Record<string, unknown>) => Object.fromEntries(fields.map(([field, one]) => [field, one.render(row)]));
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
