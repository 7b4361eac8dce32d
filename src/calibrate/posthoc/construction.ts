import { z } from 'zod';
import { argmax } from '../../metrics';
import { type Calibrated, checkClasses, classesOf, type Data, gravest, type PosthocStatus, STATUSES } from './method';
import type { Uncalibrated } from './method';
import { logitsOf, logProbabilities, probsOf, rowAt } from './rows';

/**
 * How a map of one probability makes a probability vector:
 * - `one-vs-rest` (Zadrozny and Elkan 2002): a map for each class, of its probability against the rest, fitted to whether
 *   it is the label; the K results are divided by their sum (all 0: uniform). Of two classes the second has a map, and
 *   the first what is left to 1, which is binary calibration.
 * - `top-label`: one map, of the largest probability, fitted to whether that option is the label; the other options share
 *   what is left in the proportions they had. Takes rows of different lengths; another option may become the largest.
 */
export const CONSTRUCTIONS = ['one-vs-rest', 'top-label'] as const;

export type Construction = (typeof CONSTRUCTIONS)[number];

export const constructionOption = z
  .enum(CONSTRUCTIONS)
  .default('one-vs-rest')
  .describe('or top-label: one map, of the largest probability');

/** Scores within this factor are equal: rows of logits that differ by a constant give the same up to rounding. */
export const TIE = 1 + 1e-15;

/** A binary problem: n probabilities, or their logarithms and those of what is left to 1, and whether each was right. */
export interface BinaryData {
  scores: [Float64Array] | [Float64Array, Float64Array];
  outcomes: Uint8Array;
}

/** What a map is a function of: p, or log p and log(1 - p), neither of them ever infinite. */
export type Reads = 'probs' | 'logs';

export interface Mapped<M> {
  status: PosthocStatus;
  construction: Construction;
  /** Null where rows may differ in length (`top-label`). */
  classes: number | null;
  /** One a class; of two classes, or by top label, one in all. */
  maps: M[];
}

/** The JSON of maps, each of which `map` describes. */
export function mappedSchema<M>(map: z.ZodType<M>): z.ZodType<Mapped<M>> {
  return z
    .object({
      status: z.enum(STATUSES),
      construction: z.enum(CONSTRUCTIONS),
      classes: z.int().min(2).nullable(),
      maps: z.array(map),
    })
    .refine(
      ({ construction, classes, maps }) =>
        construction === 'top-label'
          ? classes === null && maps.length === 1
          : classes !== null && maps.length === (classes === 2 ? 1 : classes),
      { message: 'expected one map a class; of two classes, or by top label, one' },
    );
}

function emptyProblem(n: number, reads: Reads): BinaryData {
  const scores: BinaryData['scores'] =
    reads === 'probs' ? [new Float64Array(n)] : [new Float64Array(n), new Float64Array(n)];
  return { scores, outcomes: new Uint8Array(n) };
}

/** What `fit` gives of each binary problem of a construction. @throws CalmError on rows that differ in length */
export function fitMaps<M extends { status: PosthocStatus }>(
  data: Data,
  construction: Construction,
  reads: Reads,
  fit: (problem: BinaryData) => M,
): Mapped<M> {
  const { probs, labels } = data.predictions;
  const classes = construction === 'top-label' ? null : classesOf(data);
  const problems = Array.from({ length: classes ?? 1 }, () => emptyProblem(labels.length, reads));
  const [log, rest]: [number[], number[]] = [[], []];
  // The option that a problem asks about: its class, or the most probable one.
  const top = classes === null ? probs.map(argmax) : [];
  problems.forEach(({ outcomes, scores }, k) => {
    for (let i = 0; i < labels.length; i++) {
      const option = classes === null ? top[i]! : k;
      outcomes[i] = option === labels[i] ? 1 : 0;
      if (reads === 'probs') scores[0][i] = probs[i]![option]!;
    }
  });
  for (let i = 0; i < labels.length && reads === 'logs'; i++) {
    logProbabilities(logitsOf(rowAt(data, i)), log, rest);
    for (let k = 0; k < problems.length; k++) {
      const option = classes === null ? top[i]! : k;
      problems[k]!.scores[0][i] = log[option]!;
      problems[k]!.scores[1]![i] = rest[option]!;
    }
  }
  const maps = (classes === 2 ? problems.slice(1) : problems).map(fit);
  return { status: gravest(maps.map(({ status }) => status)), construction, classes, maps };
}

/**
 * A row through its maps.
 * @param value q that a map gives of a score, or with `other` 1 - q, which rounding may make 0 in one and not the other
 * @throws CalmError on a row of another number of options than was fitted to
 */
export function applyMaps<M>(
  { construction, classes, maps }: Mapped<M>,
  row: Uncalibrated,
  reads: Reads,
  value: (map: M, other: boolean, score: number, rest: number) => number,
): Calibrated {
  const probs = probsOf(row);
  const [log, rest]: [number[], number[]] = [[], []];
  if (reads === 'logs') logProbabilities(logitsOf(row), log, rest);
  const at = (map: M, k: number, other = false) =>
    reads === 'logs' ? value(map, other, log[k]!, rest[k]!) : value(map, other, probs[k]!, 0);
  if (construction === 'top-label') {
    const top = argmax(probs);
    const left = at(maps[0]!, top, true);
    const others = probs.reduce((sum, p, k) => (k === top ? sum : sum + p), 0);
    const share = (p: number) => (others > 0 ? p / others : 1 / (probs.length - 1));
    return { probs: probs.map((p, k) => (k === top ? at(maps[0]!, k) : left * share(p))) };
  }
  checkClasses(probs, classes!);
  if (classes === 2) return { probs: [at(maps[0]!, 1, true), at(maps[0]!, 1)] };
  const values = maps.map((map, k) => at(map, k));
  const sum = values.reduce((a, b) => a + b, 0);
  return { probs: values.map((q) => (sum > 0 ? q / sum : 1 / values.length)) };
}
