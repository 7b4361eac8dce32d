import type { BinRow } from '../metrics';
import type { ChoiceQuestion, OpenQuestion } from '../data';

/**
 * How an answer is read off the model.
 * - `letter`: the options are listed as A, B, …; softmax over those letters' next-token logits (the paper's way).
 * - `cloze`: the options are not shown; softmax over the summed log-probabilities of each as a continuation.
 * - `continuation`: scored as by cloze, put as lm-evaluation-harness puts the task, with `acc_norm` beside accuracy.
 */
export type Scoring = 'letter' | 'cloze' | 'continuation';

/** What a summed log-probability is divided by before the softmax over options. */
export type Normalisation = 'none' | 'token' | 'byte';

/** Worked examples that stand before each question. */
export interface FewShot<Q = ChoiceQuestion> {
  /** How many. */
  shots: number;
  /** The split they are drawn from. */
  split: string;
  pool: readonly Q[];
  /** Whether they are the pool's first ones of the item's own topic, as is the custom with MMLU, and not drawn. */
  firstOfTopic?: boolean;
}

/** How a question is put where options are scored as continuations. */
export interface Form {
  /** What the options continue; one text per option where they stand in it themselves (partial scoring: WinoGrande). */
  prompt: (doc: ChoiceQuestion) => string | string[];
  /** What is scored after it, per option, without the blank between; the options themselves when absent. */
  continuations?: (doc: ChoiceQuestion) => string[];
  /** What stands before the examples and the prompt. */
  description?: (doc: ChoiceQuestion) => string;
}

/** A benchmark as an object literal; its own form is the one of `cloze`. */
export interface Task extends Form {
  name: string;
  version: number;
  /** The file the rows came from. */
  source: string;
  split: string;
  docs: readonly ChoiceQuestion[];
  /** Rows of the file that could not be used, with the reason. */
  skipped: readonly { line: number; reason: string }[];
  /** The form that lm-evaluation-harness has for it, where it is another. */
  harness?: Form;
  /** Where the worked examples before each question come from; none when absent. */
  fewShot?: FewShot;
}

/** Which rows of a task are loaded. */
export interface TaskOptions {
  /** Folder that holds `<task>/<split>.jsonl` (or `<task>.jsonl`); the starter questions, and what was fetched, need none. */
  data?: string;
  split?: string;
  /** The first n questions; below 1, that share of them. */
  limit?: number;
  /**
   * Worked examples before each question, from the task's `train` split, else `validation` or `dev`, else from the
   * split that is asked. Which ones depends on the seed of the evaluation.
   */
  shots?: number;
}

/** Questions that are answered in the model's own words. */
export interface GenerationTask extends Pick<Task, 'name' | 'version' | 'source' | 'split' | 'skipped'> {
  /** Each with the answers that are right. */
  docs: readonly OpenQuestion[];
  prompt: (doc: OpenQuestion) => string;
  /** What stands before the examples and the prompt. */
  description?: string;
  /** Texts that end an answer; they are not part of it. */
  until: readonly string[];
  maxNewTokens: number;
  /** What an answer (white space at its ends aside) is worth, by name; their means are reported. `exact_match` when absent. */
  metrics?: Readonly<Record<string, (answer: string, doc: OpenQuestion) => number>>;
  fewShot?: FewShot<OpenQuestion>;
}

/** One item's answer in the model's own words. */
export interface GenerationRow {
  task: string;
  doc_id: string;
  doc_hash: string;
  prompt_hash: string;
  answer: string;
  /** By metric. */
  scores: Record<string, number>;
  /** Tokens generated. */
  tokens: number;
  truncated: number;
}

/** Documents whose perplexity is measured. */
export interface TextTask extends Pick<Task, 'name' | 'version' | 'source' | 'split' | 'skipped'> {
  /** `counted` is the text whose words and bytes count, where it is not the one that is read. */
  docs: readonly { id: string; text: string; counted?: string }[];
}

/** One document's log-probability. */
export interface TextRow {
  task: string;
  doc_id: string;
  doc_hash: string;
  /** log p of the document, natural. */
  logprob: number;
  tokens: number;
  words: number;
  bytes: number;
}

/** One item's answer. */
export interface Row {
  task: string;
  doc_id: string;
  doc_hash: string;
  prompt_hash: string;
  /** Per option: log-softmax over the letters, or the (normalised) log-probability of the continuation. */
  logprobs: number[];
  /** With a normalisation: the log-probabilities before it. */
  raw_logprobs?: number[];
  /** softmax of `logprobs` over the options, after the calibration named in the result. */
  probs: number[];
  label: number;
  prediction: number;
  correct: boolean;
  /** Tokens cut from the left because the prompt exceeds the model's context. */
  truncated: number;
  /** With `continuation` scoring, per option: whether each of its tokens is the model's first choice. */
  is_greedy?: boolean[];
  /** With `continuation` scoring: the option with the highest log-probability per character, and per byte of UTF-8. */
  prediction_norm?: number;
  prediction_bytes?: number;
}

export interface Metric {
  value: number | null;
  /** Standard error of a mean, or that of the bootstrap for an ECE; null where there is none. */
  stderr: number | null;
  /** 95 % bootstrap interval over items, where asked for. */
  interval: [number, number] | null;
  higher_is_better: boolean;
}

/** One task under one model, scoring and calibration. */
export interface Result<R = Row> {
  task: string;
  task_version: number;
  source: string;
  split: string;
  /** `rolling`: every token of a text, for its perplexity; `generate`: answers in the model's own words; `semantic`: many of them, by meaning. */
  scoring: Scoring | 'rolling' | 'generate' | 'semantic';
  normalisation: Normalisation;
  /** Worked examples before each question. */
  shots: number;
  /** How the prompt was put into the chat template, where it was, and the system's message before it. */
  chat?: 'single' | 'multiturn';
  system?: string;
  /** `uncalibrated`, or the method that changed the probabilities, such as `temperature`. */
  calibration: string;
  /** The temperature applied, if one was. */
  temperature?: number;
  model: string;
  model_hash: string;
  /** The adapter that was applied, and whether its calibration head was. */
  adapter_hash?: string;
  head?: boolean;
  code_version: string;
  engine: string;
  seed: number;
  n: number;
  truncated: number;
  skipped: number;
  /** Items without a score, which are left out of every metric: how many, and which and why. */
  invalid: number;
  excluded: { doc_id: string; reason: string }[];
  /** Items with two highest scores alike; the first of them is the prediction. */
  ties: number;
  wall_seconds: number;
  metrics: Record<string, Metric>;
  /** Where the items have topics (MMLU's subjects): each with its accuracy; `accuracy_by_topic` is their plain mean. */
  topics?: ({ topic: string; n: number } & Pick<Metric, 'value' | 'stderr'>)[];
  bins: { confidence: BinRow[]; classwise_total: BinRow[] };
  binning: Record<string, unknown>;
  rows: R[];
}
