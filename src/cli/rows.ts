import { z } from 'zod';
import { CalmError, UsageError } from '../base/errors';
import type { LanguageModel } from '../pretrained';
import type { ModelOptions } from './options';

/** What rows are known by; it comes back as it was given. */
export const ID = z.union([z.string(), z.number()]);

/** A conversation. */
export const MESSAGES = z.array(z.looseObject({ role: z.string(), content: z.string() }));

/** Token ids of a model with `vocabSize` tokens are checked by `checkIds`; here only that they are ids at all. */
export const IDS = z.array(z.int().nonnegative());

/** Runs `work`, and puts the row's name before the message of a CalmError. */
export function naming<T>(where: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof CalmError)) throw error;
    const { remedy, exitCode, cause } = error;
    throw new CalmError(`${where}: ${error.message}`, { remedy, exitCode, cause });
  }
}

/** @throws CalmError for an id outside the vocabulary */
export function checkIds(ids: readonly number[], vocabSize: number): readonly number[] {
  const outside = ids.find((id) => id >= vocabSize);
  if (outside !== undefined) throw new CalmError(`token id ${outside} is not one of the ${vocabSize} tokens`);
  return ids;
}

/** Loads a model, and an adapter onto it where one is named. */
export async function loadWithAdapter({ model: name, adapter, head, weights }: ModelOptions): Promise<LanguageModel> {
  if (adapter === undefined && head === false) throw new UsageError('--no-head needs an --adapter');
  const { loadModel, loadTuning } = await import('../index.js');
  const model = await loadModel(name, { weights });
  return adapter === undefined ? model : loadTuning(model, adapter, head === false ? { head } : {});
}
