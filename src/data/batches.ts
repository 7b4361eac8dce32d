export interface Batches {
  /** Row indices by batch; every index once. */
  batches: number[][];
  /** Tokens in all rows. */
  tokens: number;
  /** Tokens that are computed, each row padded to the longest of its batch. */
  padded: number;
  /** Share of the computed tokens that are padding, in [0, 1). */
  waste: number;
}

/**
 * Puts rows of like length into one batch: sorted by length, longest first, so that memory peaks in the first batch and
 * an estimate of the time left errs on the long side. The same lengths give the same batches.
 * @param lengths tokens of each row, at least 1
 * @param limits a batch has at most `maxRows` rows and `maxTokens` tokens, padding included; a row longer than
 *   `maxTokens` is a batch by itself
 * @throws RangeError for a length or limit that is not a positive integer (limits may be Infinity)
 */
export function lengthBuckets(
  lengths: readonly number[],
  { maxTokens, maxRows = Infinity }: { maxTokens: number; maxRows?: number },
): Batches {
  const positive = (n: number) => Number.isInteger(n) && n >= 1;
  const wrong = lengths.find((n) => !positive(n)) ?? [maxTokens, maxRows].find((n) => !positive(n) && n !== Infinity);
  if (wrong !== undefined) throw new RangeError(`lengths and limits are positive integers, got ${wrong}`);
  const lengthOf = (index: number) => lengths[index] as number;
  const longestFirst = lengths.map((_, index) => index).sort((a, b) => lengthOf(b) - lengthOf(a));

  const batches: number[][] = [];
  let tokens = 0;
  let padded = 0;
  let width = 0;
  for (const index of longestFirst) {
    const last = batches.at(-1);
    if (last && last.length < maxRows && (last.length + 1) * width <= maxTokens) {
      last.push(index);
    } else {
      batches.push([index]);
      width = lengthOf(index);
    }
    tokens += lengthOf(index);
    padded += width;
  }
  return { batches, tokens, padded, waste: padded > 0 ? 1 - tokens / padded : 0 };
}
