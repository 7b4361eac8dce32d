import { UsageError } from '../base/errors';
import { shortHash } from '../base/hash';
import { startProgress } from '../base/progress';
import { docHash, type OpenQuestion } from '../data';
import { Random } from '../engine/random';
import { semanticConfidence, semanticMetrics, type SemanticRow } from '../metrics';
import type { Sampling } from '../model';
import type { LanguageModel } from '../pretrained';
import type { ResponseCache } from './cache';
import { drawExamples } from './few-shot';
import { sampleUntil } from './generation';
import { provenance } from './provenance';
import { standardError, Z } from './result-metrics';
import { assemble, QUESTIONS_AT_ONCE } from './score';
import {
  clusterAnswers,
  clusterCorrect,
  isCorrect,
  isRefusal,
  normalised,
  shortAnswer,
  type CorrectnessRule,
  type Equivalence,
  type Linkage,
} from './semantic';
import type { GenerationTask, Metric, Result } from './types';

/** One sampled answer to an open question. */
export interface AnswerSample {
  /** As it was sampled, up to what ended it. */
  text: string;
  /** What is compared and judged: its first line. */
  answer: string;
  tokens: number;
  /** log p of its tokens by the model itself, natural. */
  logprob: number;
  /** Which meaning it has: clusters are numbered as they are met. */
  cluster: number;
  /** Whether it is right by the rule. */
  correct: boolean;
  refusal: boolean;
}

/** One open question with everything that was sampled, so that another rule can be tried without sampling again. */
export interface OpenRow {
  task: string;
  doc_id: string;
  doc_hash: string;
  prompt_hash: string;
  question: string;
  /** The answers that are right. */
  answers: readonly string[];
  samples: AnswerSample[];
  /** The cluster with most samples; the first met of several. */
  majority: number;
  /** Its share of the samples: how sure the model is. */
  confidence: number;
  /** Whether it is right. */
  correct: boolean;
  truncated: number;
}

/** When answers mean the same, and when they are right. */
export interface MeaningOptions {
  /** By default the same normalised text. */
  equivalence?: Equivalence | undefined;
  /** By default `complete`: every two answers of a cluster mean the same. */
  linkage?: Linkage | undefined;
  /** By default `contains`. */
  rule?: CorrectnessRule | undefined;
  bins?: number | undefined;
  /** Bootstrap resamples behind the intervals and the estimate of the bias; 0 for none. */
  resamples?: number | undefined;
}

export interface SemanticOptions extends MeaningOptions, Sampling {
  /** Answers to each question; by default 20. */
  samples?: number | undefined;
  /** By default what the task says. */
  maxNewTokens?: number | undefined;
  seed?: number | undefined;
  chat?: boolean | 'multiturn' | undefined;
  system?: string | undefined;
  cache?: ResponseCache | undefined;
}

/**
 * How far a model's confidence in its answers to open questions can be trusted (Sem-ECE, CALM paper, Eq. 15): several
 * answers to each question are sampled (at temperature 1 unless said otherwise) and clustered by meaning; the share of the
 * largest cluster is the confidence in it.
 * @throws UsageError for a task without questions, an option out of its range, or a question without a usable answer
 */
export async function semanticCalibration(
  model: LanguageModel,
  task: GenerationTask,
  options: SemanticOptions = {},
): Promise<Result<OpenRow>> {
  if (task.docs.length === 0) throw new UsageError(`the task ${task.name} has no usable questions`);
  const { samples = 20, temperature = 1, maxNewTokens = task.maxNewTokens, seed = 0, chat = false, system } = options;
  if (!Number.isSafeInteger(samples) || samples < 2) throw new UsageError(`${samples} samples do not show a frequency`);
  const started = performance.now();
  const { topK, topP, minP, repetitionPenalty } = options;
  const sampling = { samples, seed, temperature, topK, topP, minP, repetitionPenalty };
  const examples = drawExamples(task, Random.seed(seed).stream('few-shot'));
  const show = (doc: OpenQuestion) => ({ prompt: task.prompt(doc), answer: doc.answers[0]! });
  const progress = startProgress(`${task.name}, ${samples} samples a question`, task.docs.length);
  const rows: OpenRow[] = [];
  for (let from = 0; from < task.docs.length; from += QUESTIONS_AT_ONCE) {
    const docs = task.docs.slice(from, from + QUESTIONS_AT_ONCE);
    const contexts = docs.map((doc, i) => assemble(model, { scoring: 'continuation', chat, system }, task.description ?? '', examples[from + i]!.map(show), task.prompt(doc))); // prettier-ignore
    const asked = contexts.map((context, i) => ({ context, until: task.until, maxNewTokens, name: docs[i]!.id }));
    sampleUntil(model, asked, sampling, { cache: options.cache, progress }).forEach(
      ({ texts, ids, logprobs, truncated }, i) => {
        const { id, question, answers } = docs[i]!;
        rows.push({
          task: task.name,
          doc_id: id,
          doc_hash: docHash(docs[i]!),
          prompt_hash: shortHash(contexts[i]!),
          question,
          answers,
          samples: texts.map((text, s) => ({
            text,
            answer: shortAnswer(text),
            tokens: ids[s]!.length,
            logprob: logprobs[s]!.reduce((a, b) => a + b, 0),
            cluster: 0,
            correct: false,
            refusal: false,
          })),
          majority: 0,
          confidence: 0,
          correct: false,
          truncated,
        });
      },
    );
  }
  progress.stop();
  const about = {
    ...provenance(model, task, seed),
    scoring: 'semantic' as const,
    normalisation: 'none' as const,
    shots: task.fewShot?.shots ?? 0,
    ...(chat !== false && { chat: chat === true ? ('single' as const) : chat }),
    ...(system !== undefined && { system }),
    calibration: 'uncalibrated',
    truncated: rows.filter((row) => row.truncated > 0).length,
    skipped: task.skipped.length,
    invalid: 0,
    excluded: [],
  };
  const meant = await withMeaning({ ...about, rows }, options);
  return { ...meant, wall_seconds: (performance.now() - started) / 1000 };
}

type Sampled = Omit<Result<OpenRow>, 'n' | 'metrics' | 'bins' | 'binning' | 'ties' | 'wall_seconds'>;

/** The same samples by another rule of what means the same, or of what is right. @throws as `semanticCalibration` */
export async function withMeaning(
  { rows: before, ...about }: Sampled,
  {
    equivalence = normalised,
    linkage = 'complete',
    rule = 'contains',
    bins = 10,
    resamples = 1000,
  }: MeaningOptions = {},
): Promise<Result<OpenRow>> {
  const started = performance.now();
  const rows: OpenRow[] = [];
  const judged: SemanticRow[] = [];
  let ties = 0;
  const clusterings = before.length > 0 ? startProgress(`clustering by ${equivalence.name}`, before.length) : undefined;
  for (const row of before) {
    const answers = row.samples.map(({ answer }) => answer);
    const clusters = clusterAnswers(answers, await equivalence.matrix(row.question, answers), linkage);
    const correct = answers.map((answer) => isCorrect(answer, row.answers, rule));
    const right = clusterCorrect(clusters, correct);
    const { majority, tie, frequency_majority: confidence } = semanticConfidence(clusters);
    judged.push({ id: row.doc_id, clusters, correct: Object.fromEntries(right.map((value, cluster) => [cluster, value])) }); // prettier-ignore
    if (tie) ties++;
    rows.push({
      ...row,
      samples: row.samples.map((sample, s) => ({ ...sample, cluster: clusters[s]!, correct: correct[s]!, refusal: isRefusal(sample.answer) })), // prettier-ignore
      majority: Number(majority),
      confidence,
      correct: right[Number(majority)]!,
    });
    clusterings?.add(1);
  }
  clusterings?.stop();
  const found = semanticMetrics(judged, { bins, resamples, seed: about.seed });
  return {
    ...about,
    n: rows.length,
    ties,
    wall_seconds: (performance.now() - started) / 1000,
    metrics: metricsOf(found, rows),
    bins: { confidence: found.bins.confidence, classwise_total: [] },
    binning: { ...found.convention, equivalence: equivalence.name, linkage, correctness: rule },
    rows,
  };
}

function metricsOf(found: ReturnType<typeof semanticMetrics>, rows: readonly OpenRow[]): Result['metrics'] {
  const plain = (value: number | null, up = false): Metric => ({ value, stderr: null, interval: null, higher_is_better: up }); // prettier-ignore
  const share = (of: (row: OpenRow) => number, up: boolean): Metric => {
    const values = rows.map(of);
    const value = values.reduce((a, b) => a + b, 0) / values.length;
    const stderr = standardError(values);
    const reach = stderr === null ? null : Z * stderr;
    const interval: Metric['interval'] =
      reach === null ? null : [Math.max(0, value - reach), Math.min(1, value + reach)];
    return { value, stderr, interval, higher_is_better: up };
  };
  const { bootstrap } = found;
  return {
    accuracy: share(({ correct }) => (correct ? 1 : 0), true),
    sample_accuracy: share(({ samples }) => samples.filter(({ correct }) => correct).length / samples.length, true),
    mean_confidence: share(({ confidence }) => confidence, false),
    sem_ece: { value: found.sem_ece, stderr: bootstrap?.stderr ?? null, interval: bootstrap?.interval ?? null, higher_is_better: false }, // prettier-ignore
    ...(bootstrap && {
      sem_ece_bias: plain(bootstrap.bias),
      sem_ece_corrected: { value: bootstrap.corrected, stderr: bootstrap.corrected_stderr, interval: bootstrap.corrected_interval, higher_is_better: false }, // prettier-ignore
    }),
    sem_ece_per_sample: plain(found.sem_ece_per_sample),
    semantic_entropy: plain(found.semantic_entropy),
    brier: plain(found.brier),
    auroc: plain(found.auroc, true),
    refusals: share(({ samples }) => samples.filter(({ refusal }) => refusal).length / samples.length, false),
  };
}
