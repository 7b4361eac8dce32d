import { z } from 'zod';
import { CalmError, UsageError } from '../../base/errors';
import { readJsonl } from '../../base/files';
import type { Equivalence } from './equivalence';

/** Two answers to a question, and whether a person says that they mean the same. */
export interface SemanticPair {
  id: string;
  question: string;
  a: string;
  b: string;
  same: boolean;
  /** In what they differ, such as `alias`, `date`, `near-miss`. */
  kind: string;
}

const pair = z.object({
  id: z.string().min(1),
  question: z.string().min(1),
  a: z.string(),
  b: z.string(),
  same: z.boolean(),
  kind: z.string().min(1),
});

/**
 * Reads labelled pairs `{"id", "question", "a", "b", "same", "kind"}` from JSON lines, as `datasets/semantic-pairs` has them.
 * @throws CalmError that names file and line, for a row that is not one or an id that stands twice
 */
export async function readSemanticPairs(file: string): Promise<SemanticPair[]> {
  const out: SemanticPair[] = [];
  const ids = new Set<string>();
  for await (const { value, where } of readJsonl(file)) {
    const row = pair.safeParse(value);
    if (!row.success) {
      const { path, message } = row.error.issues[0]!;
      throw new CalmError(`${where}: field "${path.join('.')}": ${message}`, {
        remedy: 'correct the row or leave it out',
      });
    }
    if (ids.has(row.data.id)) throw new CalmError(`${where}: the id "${row.data.id}" stands twice`);
    ids.add(row.data.id);
    out.push(row.data);
  }
  return out;
}

/** How often an equivalence says what the labels say; "same" is the positive class. */
export interface Agreement {
  n: number;
  /** Pairs that are labelled the same. */
  same: number;
  /** Of the pairs it calls the same, the part that is; null where it calls none so. */
  precision: number | null;
  /** Of the pairs that are the same, the part it calls so; null where there are none. */
  recall: number | null;
  /** 2 true positives / (2 true positives + false positives + false negatives); null where there are none of these. */
  f1: number | null;
  accuracy: number;
}

export interface EquivalenceQuality extends Agreement {
  name: string;
  /** By kind, in the order in which they first appear. */
  kinds: Record<string, Agreement>;
}

/**
 * How well an equivalence agrees with labelled pairs. Each pair is asked by itself.
 * @throws UsageError for no pairs, or an equivalence that depends on the order of the two answers
 */
export async function equivalenceQuality(
  pairs: readonly SemanticPair[],
  equivalence: Equivalence,
): Promise<EquivalenceQuality> {
  if (pairs.length === 0) throw new UsageError('there are no pairs to measure on');
  const judged: { kind: string; label: boolean; found: boolean }[] = [];
  for (const { id, question, a, b, same, kind } of pairs) {
    const matrix = await equivalence.matrix(question, [a, b]);
    const found = matrix[0]?.[1];
    if (found === undefined || found !== matrix[1]?.[0]) {
      throw new UsageError(`${equivalence.name} does not give a symmetric matrix for the pair "${id}"`);
    }
    judged.push({ kind, label: same, found });
  }
  const kinds = [...new Set(judged.map(({ kind }) => kind))];
  return {
    name: equivalence.name,
    ...agreement(judged),
    kinds: Object.fromEntries(kinds.map((kind) => [kind, agreement(judged.filter((one) => one.kind === kind))])),
  };
}

function agreement(judged: readonly { label: boolean; found: boolean }[]): Agreement {
  const count = (label: boolean, found: boolean) =>
    judged.filter((one) => one.label === label && one.found === found).length;
  const [hits, misses, alarms] = [count(true, true), count(true, false), count(false, true)];
  const ratio = (part: number, whole: number) => (whole === 0 ? null : part / whole);
  return {
    n: judged.length,
    same: hits + misses,
    precision: ratio(hits, hits + alarms),
    recall: ratio(hits, hits + misses),
    f1: ratio(2 * hits, 2 * hits + alarms + misses),
    accuracy: (hits + count(false, false)) / judged.length,
  };
}
