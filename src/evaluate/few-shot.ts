import { UsageError } from '../base/errors';
import { dedupe, docHash, normaliseQuestion, type ChoiceQuestion, type OpenQuestion } from '../data';
import type { Random } from '../engine/random';
import type { FewShot } from './types';

/** The splits to draw examples from, the best first; another than the one that is evaluated, where there is one. */
const POOLS = ['train', 'validation', 'dev'];

/** Which of the splits `there` examples come from when `evaluated` is asked. */
export function poolSplit(there: readonly string[], evaluated: string): string {
  return POOLS.find((split) => split !== evaluated && there.includes(split)) ?? evaluated;
}

/** What makes two questions the same, so that one would give away the answer of the other. */
const content = ({ question, passage = '' }: Pick<ChoiceQuestion, 'question' | 'passage'>) =>
  JSON.stringify([normaliseQuestion(question), normaliseQuestion(passage)]);

/**
 * The examples of each question, drawn unless its task takes the first ones: never the question itself or one of the
 * same content (whatever its id and options), and none twice. They depend on the seed and the question, not on its
 * neighbours.
 * @throws UsageError when the pool has too few other questions
 */
export function drawExamples<Q extends ChoiceQuestion | OpenQuestion>(
  { name, docs, fewShot }: { name: string; docs: readonly Q[]; fewShot?: FewShot<Q> },
  random: Random,
): Q[][] {
  if (!fewShot) return docs.map(() => []);
  const { shots, split, firstOfTopic = false } = fewShot;
  const pool = dedupe(fewShot.pool).kept;
  const contents = pool.map(content);
  const count = new Map<string, number>();
  for (const key of contents) count.set(key, (count.get(key) ?? 0) + 1);
  return docs.map((doc) => {
    const own = content(doc);
    const first = firstOfTopic
      ? pool.filter((other, i) => other.topic === doc.topic && contents[i] !== own)
      : undefined;
    const left = first?.length ?? pool.length - (count.get(own) ?? 0);
    if (left < shots) {
      throw new UsageError(
        `${name}: ${shots} examples cannot be drawn from the ${left} other questions of the split ${split}` +
          (firstOfTopic ? ` about ${doc.topic ?? 'no topic'}` : ''),
        { remedy: 'ask for fewer shots' },
      );
    }
    if (first) return first.slice(0, shots);
    const stream = random.stream(docHash(doc));
    const chosen = new Set<number>();
    while (chosen.size < shots) {
      const i = stream.integer(pool.length);
      if (contents[i] !== own) chosen.add(i);
    }
    return [...chosen].map((i) => pool[i]!);
  });
}
