import { z } from 'zod';

/** Where a benchmark's rows are on Hugging Face's hub, and how they become rows that `loadTask` reads. */
export interface Source {
  /** `owner/name` on the hub. */
  repo: string;
  config: string;
  /** The hub's split behind each split here. */
  splits: Readonly<Record<string, string>>;
  /** Which of the hub's rows a split has, from the first to before the last, where it does not have all. */
  slices?: Readonly<Record<string, readonly [from: number, to: number]>>;
  /** The folder of its rows, where it is not the task's name. */
  folder?: string;
  /** What its rows have here, where it is not a question, choices and an answer. */
  fields?: readonly string[];
  /** @throws z.ZodError for a row that is not laid out as it was */
  convert: (row: unknown) => object;
}

function source<Layout extends z.ZodType>(
  repo: string,
  config: string,
  splits: Source['splits'],
  layout: Layout,
  convert: (row: z.output<Layout>) => object,
  more: Pick<Source, 'folder' | 'fields' | 'slices'> = {},
): Source {
  return { repo, config, splits, convert: (row) => convert(layout.parse(row)), ...more };
}

/** Splits that are called here what they are called on the hub. */
const same = (...names: string[]) => Object.fromEntries(names.map((name) => [name, name]));

const text = z.string();
/** An integer as Parquet has it, 32 or 64 bits wide, or one in digits. */
const integer = z.union([z.int(), z.bigint(), z.string().regex(/^\d+$/, 'is not a number')]).transform(Number);
/** A list of texts, written as JSON in one. */
const listInJson = text.transform((json, context) => {
  try {
    return z.array(text).parse(JSON.parse(json));
  } catch {
    context.addIssue({ code: 'custom', message: 'is not a list of texts in JSON' });
    return z.NEVER;
  }
});
const options = z.object({ text: z.array(text), label: z.array(text) });

/** The answer is the label of one of the options: letters mostly, digits at times. */
const answerOf = (choices: z.output<typeof options>, key: string) => choices.label.indexOf(key.trim());

const withOptions = z.object({ id: text, question: text, choices: options, answerKey: text });
const fromOptions = ({ id, question, choices, answerKey }: z.output<typeof withOptions>) => ({
  id,
  question,
  choices: choices.text,
  answer: answerOf(choices, answerKey),
});

const arc = (config: string) =>
  source('allenai/ai2_arc', config, same('train', 'validation', 'test'), withOptions, fromOptions);

/** Python's `str.capitalize`: the first character as in a title, all others in lower case. */
export function capitalize(sentence: string): string {
  const [first = ''] = sentence;
  const upper = first.toUpperCase(); // of "ß" it is "SS", in a title "Ss"
  const title = upper.slice(0, first.length) + upper.slice(first.length).toLowerCase();
  // The whole in lower case, for the form of a sigma depends on what stands before it.
  return title + sentence.toLowerCase().slice(first.toLowerCase().length);
}

/** HellaSwag without the marks of WikiHow, as lm-evaluation-harness cleans it. */
export function cleanHellaswag(passage: string): string {
  return passage
    .trim()
    .replaceAll(' [title]', '. ')
    .replace(/\[[^\n]*?\]/g, '')
    .replaceAll('  ', ' ');
}

/** MathQA's options `a ) 1 , b ) 2 , …`, taken apart as lm-evaluation-harness does. */
export function mathOptions(line: string): string[] {
  const found = line.match(/[abcd] \) [^\n]*?, |e \) [^\n]*?(?=\n?$)/g) ?? [];
  return found.map((option) => option.slice(4).replace(/[ ,]+$/, ''));
}

/** The public benchmarks that `fetchTask` can get, by task. */
export const SOURCES: Readonly<Record<string, Source>> = {
  arc_easy: arc('ARC-Easy'),
  arc_challenge: arc('ARC-Challenge'),
  openbookqa: source(
    'allenai/openbookqa',
    'main',
    same('train', 'validation', 'test'),
    z.object({ id: text, question_stem: text, choices: options, answerKey: text }),
    ({ id, question_stem, choices, answerKey }) => ({
      id,
      question: question_stem,
      choices: choices.text,
      answer: answerOf(choices, answerKey),
    }),
  ),
  hellaswag: source(
    'Rowan/hellaswag',
    'default',
    same('validation'),
    z.object({ activity_label: text, ctx_a: text, ctx_b: text, endings: z.array(text), label: integer }),
    ({ activity_label, ctx_a, ctx_b, endings, label }) => ({
      question: cleanHellaswag(`${activity_label}: ${ctx_a} ${capitalize(ctx_b)}`),
      choices: endings.map(cleanHellaswag),
      answer: label,
    }),
  ),
  piqa: source(
    'baber/piqa',
    'default',
    same('validation'),
    z.object({ goal: text, sol1: text, sol2: text, label: integer }),
    ({ goal, sol1, sol2, label }) => ({ question: goal, choices: [sol1, sol2], answer: label }),
  ),
  winogrande: source(
    'allenai/winogrande',
    'winogrande_xl',
    same('validation'),
    z.object({ sentence: text, option1: text, option2: text, answer: integer }),
    ({ sentence, option1, option2, answer }) => ({
      question: sentence,
      choices: [option1, option2],
      answer: answer - 1,
    }),
  ),
  mmlu: source(
    'cais/mmlu',
    'all',
    same('test', 'dev'),
    z.object({ question: text, subject: text, choices: z.array(text), answer: integer }),
    ({ question, subject, choices, answer }) => ({ question, choices, answer, subject }),
  ),
  medmcqa: source(
    'openlifescienceai/medmcqa',
    'default',
    { test: 'validation' }, // the hub's test split has no answers
    z.object({ id: text, question: text, opa: text, opb: text, opc: text, opd: text, cop: integer }),
    ({ id, question, opa, opb, opc, opd, cop }) => ({ id, question, choices: [opa, opb, opc, opd], answer: cop }),
  ),
  commonsense_qa: source('tau/commonsense_qa', 'default', same('train', 'validation'), withOptions, fromOptions),
  mathqa: source(
    'regisss/math_qa',
    'default',
    same('test'),
    z.object({ Problem: text, options: text, correct: text }),
    ({ Problem, options: line, correct }) => ({
      question: Problem,
      choices: mathOptions(line),
      answer: ['a', 'b', 'c', 'd', 'e'].indexOf(correct),
    }),
  ),
  boolq: source(
    'aps/super_glue',
    'boolq',
    same('validation', 'train'),
    z.object({ question: text, passage: text, label: integer }),
    ({ question, passage, label }) => ({ question, choices: ['no', 'yes'], answer: label, passage }),
  ),
  truthfulqa_mc1: source(
    'truthfulqa/truthful_qa',
    'multiple_choice',
    { mc1_test: 'validation' },
    z.object({ question: text, mc1_targets: z.object({ choices: z.array(text), labels: z.array(integer) }) }),
    ({ question, mc1_targets: { choices, labels } }) => ({ question, choices, answer: labels.indexOf(1) }),
    { folder: 'truthfulqa' },
  ),
  rte: source(
    'nyu-mll/glue',
    'rte',
    same('validation', 'train'),
    z.object({ sentence1: text, sentence2: text, label: integer }),
    ({ sentence1, sentence2, label }) => ({ premise: sentence1, hypothesis: sentence2, label }),
    { fields: ['premise', 'hypothesis', 'label'] },
  ),
  sst2: source(
    'nyu-mll/glue',
    'sst2',
    same('validation', 'train'),
    z.object({ sentence: text, label: integer }),
    ({ sentence, label }) => ({ text: sentence, label }),
    { fields: ['text', 'label'] },
  ),
  nq_open: source(
    'google-research-datasets/nq_open',
    'nq_open',
    same('validation', 'train'),
    z.object({ question: text, answer: z.array(text) }),
    ({ question, answer }) => ({ question, answers: answer }),
    { fields: ['question', 'answers'] },
  ),
  // The right answers are JSON in a text; how often subject and object are looked up is kept.
  popqa: source(
    'akariasai/PopQA',
    'default',
    same('test'),
    z.object({ id: integer, question: text, possible_answers: listInJson, s_pop: integer, o_pop: integer }),
    ({ id, question, possible_answers, s_pop, o_pop }) => ({
      id,
      question,
      answers: possible_answers,
      s_pop,
      o_pop,
    }),
    { fields: ['question', 'answers'] },
  ),
  triviaqa: source(
    'mandarjoshi/trivia_qa',
    'rc.nocontext',
    same('validation', 'train'),
    z.object({ question_id: text, question: text, answer: z.object({ value: text, aliases: z.array(text) }) }),
    ({ question_id, question, answer: { value, aliases } }) => ({
      id: question_id,
      question,
      answers: [...new Set([value, ...aliases])],
    }),
    { fields: ['question', 'answers'] },
  ),
  tweeteval_sentiment: source(
    'cardiffnlp/tweet_eval',
    'sentiment',
    same('test', 'validation'),
    z.object({ text, label: integer }),
    ({ text: tweet, label }) => ({ text: tweet, label }),
    { fields: ['text', 'label'] },
  ),
  // Not a task but what the paper trains on out of domain, parted as its sizes suggest (5.1): by position.
  alpaca: source(
    'tatsu-lab/alpaca',
    'default',
    { train: 'train', validation: 'train', test: 'train' },
    z.object({ instruction: text, input: text, output: text }),
    ({ instruction, input, output }) => ({ instruction, input, output }),
    {
      fields: ['instruction', 'input', 'output'],
      slices: { train: [0, 48_002], validation: [48_002, 50_002], test: [50_002, 52_002] },
    },
  ),
};
