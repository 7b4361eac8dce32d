import { CalmError, UsageError } from '../base/errors';

/** @throws UsageError unless the number of bins is a positive integer. */
export function checkBins(bins: number): void {
  if (!Number.isSafeInteger(bins) || bins < 1) {
    throw new UsageError(`the number of bins is ${bins}`, { remedy: 'give a positive integer, such as 10' });
  }
}

/** @throws CalmError unless `values` (in [0, 1]) and `outcomes` (0 or 1) pair up. */
export function checkPairs(values: ArrayLike<number>, outcomes: ArrayLike<number>): void {
  checkSameLength(values, outcomes, 'confidences', 'outcomes');
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    const outcome = outcomes[i];
    if (!(value >= 0 && value <= 1)) throw new CalmError(`confidence ${i + 1} is ${value}, not in [0, 1]`);
    if (outcome !== 0 && outcome !== 1) throw new CalmError(`outcome ${i + 1} is ${outcome}, not 0 or 1`);
  }
}

/** @throws CalmError when two lists that belong together differ in length. */
export function checkSameLength(a: ArrayLike<unknown>, b: ArrayLike<unknown>, nameA: string, nameB: string): void {
  if (a.length !== b.length) throw new CalmError(`there are ${a.length} ${nameA} but ${b.length} ${nameB}`);
}

/** @throws CalmError when there is nothing to average over. */
export function checkNotEmpty(n: number): void {
  if (n === 0) throw new CalmError('there are no predictions', { remedy: 'give at least one row' });
}
