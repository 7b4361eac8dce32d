import * as path from 'node:path';
import { UsageError } from '../base/errors';
import type { Random } from '../engine/random';
import { readQuestions, type ChoiceQuestion } from './questions';
import { dedupe, normaliseQuestion } from './splits';

export interface Mixture {
  train: ChoiceQuestion[];
  validation: ChoiceQuestion[];
  test: ChoiceQuestion[];
}

/** The sources of the paper's MCQA set: the split to train and validate on, and the one to test on, of each. */
export const MCQA = [
  { name: 'arc_challenge', pool: 'train', test: 'test' },
  { name: 'medmcqa', pool: 'dev', test: 'test' },
  { name: 'mmlu', pool: 'test', test: 'test' }, // its dev split has 285 rows only; the two parts do not overlap
  { name: 'openbookqa', pool: 'train', test: 'test' },
] as const;

/**
 * The paper's MCQA set (Section 5.1 and Appendix B), as far as it is described: equal quarters of ARC-Challenge, MedMCQA,
 * MMLU and OpenBookQA, items with four options only, drawn by a seed; no question stands in two of the three parts, and
 * twice in one only where there are not enough others, with other options.
 * @param folder holds `<source>/<split>.jsonl`
 * @throws UsageError when a source has too few items; CalmError when a file is missing
 */
export async function mcqaMixture(
  folder: string,
  sizes: { train: number; validation: number; test: number },
  random: Random,
): Promise<Mixture> {
  const out: Mixture = { train: [], validation: [], test: [] };
  const taken = new Set<string>();
  for (const { name, pool, test } of MCQA) {
    const rows = async (split: string) => {
      const { questions } = await readQuestions(path.join(folder, name, `${split}.jsonl`), { invalid: 'skip' });
      const four = questions.filter(({ choices }) => choices.length === 4);
      return random.stream(`${name} ${split}`).shuffle(four.map((q) => ({ ...q, id: `${name}/${split}/${q.id}` })));
    };
    const take = (from: ChoiceQuestion[], total: number, part: string): ChoiceQuestion[] => {
      const wanted = Math.round(total / MCQA.length);
      const fresh: ChoiceQuestion[] = [];
      const again: ChoiceQuestion[] = []; // asked already in this part, of other options
      const mine = new Set<string>();
      for (const question of from) {
        if (fresh.length === wanted) break;
        const content = normaliseQuestion(question.question);
        if (mine.has(content)) again.push(question);
        if (taken.has(content)) continue;
        taken.add(content);
        mine.add(content);
        fresh.push(question);
      }
      // OpenBookQA's test part is needed whole, and has two such pairs.
      fresh.push(...dedupe([...fresh, ...again]).kept.slice(fresh.length, wanted));
      if (fresh.length < wanted) {
        throw new UsageError(`${name} has ${fresh.length} four-option questions left for ${part}, not ${wanted}`, {
          remedy: 'ask for fewer',
        });
      }
      return fresh;
    };
    // The test part first, so that it does not depend on the sizes of the others.
    out.test.push(...take(await rows(test), sizes.test, 'test'));
    const rest = await rows(pool);
    out.train.push(...take(rest, sizes.train, 'train'));
    out.validation.push(...take(rest, sizes.validation, 'validation'));
  }
  return out;
}
