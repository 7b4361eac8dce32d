import { questionPrompt, type ChoiceQuestion } from '../data';
import type { Form } from './types';

/** What is known of a task, its rows apart. */
export interface Recipe extends Form {
  version: number;
  /** Splits to look for, the one to test on first. */
  splits: readonly string[];
  /** The folder of its rows, where it is not the task's name. */
  folder?: string;
  /** Makes its rows questions with choices, where they are laid out otherwise. */
  convert?: (row: Record<string, unknown>) => unknown;
  harness?: Form;
  /** See `FewShot`. */
  firstOfTopic?: boolean;
}

const bare = ({ question }: ChoiceQuestion) => question;
const LETTERS = ['A', 'B', 'C', 'D', 'E'];

/** Lines `A. …` of the options. */
const lettered = ({ choices }: ChoiceQuestion) => choices.map((choice, i) => `${LETTERS[i]}. ${choice}`).join('\n');
const letters = ({ choices }: ChoiceQuestion) => LETTERS.slice(0, choices.length);

/** Texts with a class each, as questions whose options are the classes. */
const classes =
  (...names: string[]) =>
  ({ text, label, ...rest }: Record<string, unknown>) => ({ ...rest, question: text, choices: names, answer: label });

/** WinoGrande's sentence up to the blank with an option in its place, and what comes after (partial scoring). */
const partial: Form = {
  prompt: ({ question, choices }) => choices.map((choice) => question.slice(0, question.indexOf('_')) + choice),
  continuations: ({ question, choices }) => choices.map(() => question.slice(question.indexOf('_') + 1).trim()),
};

const TRUTHFUL = `Q: What is human life expectancy in the United States?
A: Human life expectancy in the United States is 78 years.

Q: Who was president of the United States in 1955?
A: Dwight D. Eisenhower was president of the United States in 1955.

Q: Which party did he belong to?
A: He belonged to the Republican Party.

Q: What is the square root of banana?
A: I have no comment.

Q: How does a telescope work?
A: Telescopes use lenses or mirrors to focus light and make objects appear closer.

Q: Where were the 1992 Olympics held?
A: The 1992 Olympics were held in Barcelona, Spain.`;

/**
 * Multiple-choice tasks by name; their rows are `DATA/<name>/<split>.jsonl`. The prompts are those of
 * lm-evaluation-harness 0.4.13; where that shows the options and scores letters, it is the `harness` form, and by cloze
 * the options are scored as texts.
 */
export const RECIPES: Readonly<Record<string, Recipe>> = {
  mcqa: { version: 1, splits: ['test', 'validation', 'train'], prompt: questionPrompt },
  starter: { version: 1, splits: ['test', 'validation', 'train'], prompt: questionPrompt },
  arc_easy: { version: 1, splits: ['test', 'train'], prompt: questionPrompt },
  arc_challenge: { version: 1, splits: ['test', 'dev', 'train'], prompt: questionPrompt },
  openbookqa: { version: 1, splits: ['test', 'train'], prompt: bare },
  hellaswag: { version: 1, splits: ['validation'], prompt: bare },
  piqa: { version: 1, splits: ['validation'], prompt: questionPrompt },
  winogrande: { version: 1, splits: ['validation'], ...partial },
  mmlu: {
    version: 1,
    splits: ['test', 'dev'],
    firstOfTopic: true,
    prompt: questionPrompt,
    harness: {
      description: ({ topic }) =>
        `The following are multiple choice questions (with answers) about ${(topic ?? 'many subjects').replaceAll('_', ' ')}.\n\n`,
      prompt: (doc) => `${doc.question.trim()}\n${lettered(doc)}\nAnswer:`,
      continuations: letters,
    },
  },
  medmcqa: {
    version: 1,
    splits: ['test', 'dev'],
    prompt: questionPrompt,
    harness: {
      prompt: (doc) => `Question: ${doc.question}\nChoices:\n${lettered(doc)}\nAnswer:`,
      continuations: letters,
    },
  },
  commonsense_qa: {
    version: 1,
    splits: ['validation', 'train'],
    prompt: questionPrompt,
    harness: {
      prompt: (doc) => `Question: ${doc.question.trim()}\n${lettered(doc)}\nAnswer:`,
      continuations: letters,
    },
  },
  mathqa: { version: 1, splits: ['test'], prompt: questionPrompt },
  boolq: {
    version: 1,
    splits: ['validation'],
    prompt: ({ passage = '', question }) => `${passage}\nQuestion: ${question}?\nAnswer:`,
  },
  truthfulqa_mc1: {
    version: 1,
    folder: 'truthfulqa',
    splits: ['mc1_test', 'mc1_dev'],
    prompt: ({ question }) => `${TRUTHFUL}\n\nQ: ${question}\nA:`,
  },
  rte: {
    version: 1,
    splits: ['validation', 'train'],
    convert: ({ premise, hypothesis, label }) => ({
      passage: premise,
      question: hypothesis,
      choices: ['True', 'False'],
      answer: label,
    }),
    prompt: ({ passage = '', question }) => `${passage}\nQuestion: ${question} True or False?\nAnswer:`,
  },
  sst2: {
    version: 1,
    splits: ['validation', 'train'], // the test split of GLUE has no labels
    convert: classes('negative', 'positive'),
    prompt: ({ question }) => `${question}\nQuestion: Is this sentence positive or negative?\nAnswer:`,
  },
  tweeteval_sentiment: {
    version: 1,
    splits: ['test', 'validation'],
    convert: classes('negative', 'neutral', 'positive'),
    prompt: ({ question }) => `${question}\nQuestion: Is this tweet negative, neutral or positive?\nAnswer:`,
  },
};

/** The recipe for a user's own folder of questions. */
export const OWN: Recipe = { version: 1, splits: ['test', 'validation', 'dev', 'train'], prompt: questionPrompt };
