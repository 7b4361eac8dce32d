import { checkBins, checkPairs } from './check';

/** One bin of a reliability diagram; the means are null when the bin is empty. */
export interface BinRow {
  lo: number;
  hi: number;
  count: number;
  mean_confidence: number | null;
  accuracy: number | null;
}

/**
 * The bin of `value` among `bins` equal-width bins [k/M, (k+1)/M), the last one closed. The edges are the doubles k/M
 * and are compared with, because a product such as 0.29 * 100 can land on the wrong side: 0.3 of 10 bins is bin 3.
 */
export function binIndex(value: number, bins: number): number {
  let k = bins - 1;
  while (k > 0 && value < k / bins) k--;
  return k;
}

/**
 * The equal-width table that every binned metric and diagram is made from: `bins` rows, empty ones included, and no
 * pair is dropped.
 * @param values confidences in [0, 1], n of them
 * @param outcomes 0 or 1, n of them
 * @throws CalmError on a value, an outcome or a number of bins that makes no sense
 */
export function binTable(values: ArrayLike<number>, outcomes: ArrayLike<number>, bins = 10): BinRow[] {
  checkBins(bins);
  checkPairs(values, outcomes);
  const counts = new Float64Array(bins);
  const confidence = new Float64Array(bins);
  const correct = new Float64Array(bins);
  for (let i = 0; i < values.length; i++) {
    const k = binIndex(values[i] as number, bins);
    counts[k]!++;
    confidence[k]! += values[i] as number;
    correct[k]! += outcomes[i] as number;
  }
  return Array.from(counts, (count, k) => ({
    lo: k / bins,
    hi: (k + 1) / bins,
    count,
    mean_confidence: count > 0 ? confidence[k]! / count : null,
    accuracy: count > 0 ? correct[k]! / count : null,
  }));
}

/**
 * The adaptive (equal-mass) table: pairs in stable order of their values, cut into `bins` runs whose sizes differ by
 * at most one, the longer ones first (`numpy.array_split`). Equal values may fall on both sides of a cut, so with
 * ties the result depends on the order of the input. `lo` and `hi` are the smallest and largest value of a run; with
 * fewer pairs than bins there is one row a pair.
 * @throws CalmError as `binTable`
 */
export function adaptiveTable(values: ArrayLike<number>, outcomes: ArrayLike<number>, bins = 10): BinRow[] {
  checkBins(bins);
  checkPairs(values, outcomes);
  const n = values.length;
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => values[a]! - values[b]!);
  const table: BinRow[] = [];
  let from = 0;
  for (let k = 0; k < Math.min(bins, n); k++) {
    const count = Math.floor(n / bins) + (k < n % bins ? 1 : 0);
    const run = order.slice(from, from + count);
    from += count;
    table.push({
      lo: values[run[0]!]!,
      hi: values[run[count - 1]!]!,
      count,
      mean_confidence: run.reduce((sum, i) => sum + values[i]!, 0) / count,
      accuracy: run.reduce((sum, i) => sum + outcomes[i]!, 0) / count,
    });
  }
  return table;
}
