import { z } from 'zod';
import {
  applyMaps,
  type BinaryData,
  constructionOption,
  fitMaps,
  type Mapped,
  mappedSchema,
  TIE,
} from './construction';
import { type PosthocMethod, type PosthocStatus, STATUSES } from './method';
import { sortScores } from './sort';

/** A rising map through the points (scores[i], values[i]): straight between them, level before the first and after the last. */
export interface IsotonicMap {
  status: PosthocStatus;
  /** Ascending: the first and the last score of each level stretch. */
  scores: number[];
  values: number[];
}

const options = z.strictObject({ construction: constructionOption });

/** Level stretches: from which score to which, how many outcomes, and how many of them are 1. */
interface Blocks {
  length: number;
  first: Float64Array;
  last: Float64Array;
  count: Float64Array;
  ones: Float64Array;
}

/**
 * Pool adjacent violators, after equal scores (see `TIE`) are pooled. Counts are whole, so that nothing is rounded.
 * @param right, wrong the scores of outcomes 1 and 0, each ascending
 */
function pool(right: Float64Array, wrong: Float64Array): Blocks {
  const most = right.length + 1; // each block but the first has a larger share of ones than none
  const column = () => new Float64Array(most);
  const [first, last, count, ones] = [column(), column(), column(), column()];
  let length = 0;
  // The last block, which is still open.
  let start = 0;
  let end = 0;
  let size = 0;
  let sum = 0;
  for (let r = 0, w = 0; r < right.length || w < wrong.length;) {
    const score = Math.min(r < right.length ? right[r]! : Infinity, w < wrong.length ? wrong[w]! : Infinity);
    let newOnes = -r;
    let newSize = -r - w;
    while (r < right.length && right[r]! <= score * TIE) r++;
    while (w < wrong.length && wrong[w]! <= score * TIE) w++;
    newOnes += r;
    newSize += r + w;
    if (size === 0 || sum * newSize < newOnes * size) {
      if (size > 0) {
        first[length] = start;
        last[length] = end;
        count[length] = size;
        ones[length++] = sum;
      }
      start = score;
      size = newSize;
      sum = newOnes;
    } else {
      size += newSize;
      sum += newOnes;
      for (; length > 0 && ones[length - 1]! * size >= sum * count[length - 1]!; length--) {
        start = first[length - 1]!;
        size += count[length - 1]!;
        sum += ones[length - 1]!;
      }
    }
    end = score;
  }
  first[length] = start;
  last[length] = end;
  count[length] = size;
  ones[length] = sum;
  return { length: length + 1, first, last, count, ones };
}

function fitMap({ scores: [scores], outcomes }: BinaryData): IsotonicMap {
  const n = outcomes.length;
  let total = 0;
  for (let i = 0; i < n; i++) total += outcomes[i]!;
  // Sorted as plain numbers, those of either outcome by themselves: faster than pairs.
  const [right, wrong] = [new Float64Array(total), new Float64Array(n - total)];
  for (let i = 0, r = 0, w = 0; i < n; i++) {
    if (outcomes[i]) right[r++] = scores[i]!;
    else wrong[w++] = scores[i]!;
  }
  sortScores(right);
  sortScores(wrong);
  const { length, first, last, count, ones } = pool(right, wrong);
  const map: IsotonicMap = { status: 'converged', scores: [], values: [] };
  for (let block = 0; block < length; block++) {
    for (const score of new Set([first[block]!, last[block]!])) {
      map.scores.push(score);
      map.values.push(ones[block]! / count[block]!);
    }
  }
  if (last[length - 1]! <= first[0]! * TIE) map.status = 'constant-scores';
  if (total === 0 || total === n) map.status = 'class-absent';
  return map;
}

/** The map at a score, by bisection. */
function valueAt({ scores, values }: IsotonicMap, score: number): number {
  let [low, high] = [0, scores.length - 1];
  if (!(score > scores[0]!)) return values[0]!;
  if (score >= scores[high]!) return values[high]!;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (scores[middle]! <= score) low = middle;
    else high = middle;
  }
  const share = (score - scores[low]!) / (scores[high]! - scores[low]!);
  return values[low]! + share * (values[high]! - values[low]!);
}

/**
 * Isotonic regression (Zadrozny and Elkan 2002): the rising map of least squared error, which is also the one of least
 * NLL, of a probability; scikit-learn's, with `out_of_bounds="clip"`. It gives probabilities of 0 and 1, so that the NLL
 * of other rows may be infinite. See `Construction` for how maps make a probability vector.
 */
export const isotonic: PosthocMethod<z.output<typeof options>, Mapped<IsotonicMap>> = {
  about: 'the rising map of least error, with straight lines between its steps (Zadrozny and Elkan 2002)',
  options,
  parameters: mappedSchema(
    z
      .object({
        status: z.enum(STATUSES),
        scores: z.array(z.number()).min(1),
        values: z.array(z.number().min(0).max(1)),
      })
      .refine(
        ({ scores, values }) =>
          values.length === scores.length &&
          scores.every((s, i) => i === 0 || (s > scores[i - 1]! && values[i]! >= values[i - 1]!)),
        { message: 'expected ascending scores with a value each' },
      ),
  ),

  fit(data, { construction }) {
    return fitMaps(data, construction, 'probs', fitMap);
  },

  apply(parameters, row) {
    return applyMaps(parameters, row, 'probs', (map, other, p) => {
      const q = valueAt(map, p);
      return other ? 1 - q : q;
    });
  },
};
