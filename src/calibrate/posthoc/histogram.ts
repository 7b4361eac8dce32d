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

/** A map that is level in each bin. */
export interface HistogramMap {
  status: PosthocStatus;
  /** Where a bin ends and the next begins, ascending: a score equal to an edge is in the bin above. */
  edges: number[];
  /** One a bin, so one more than there are edges. */
  values: number[];
  /** How many scores each bin had. */
  counts: number[];
}

const options = z.strictObject({
  construction: constructionOption,
  bins: z.int().min(1).max(10_000).default(10).describe('bins of the map'),
  binning: z.enum(['equal-width', 'equal-mass']).default('equal-width').describe('or equal-mass: as many rows in each'),
});

/** The bin of a score among those that the edges make: where it would be if they were k / M, or else by bisection. */
function binOf(edges: readonly number[], score: number): number {
  const last = edges.length;
  const guess = Math.min(last, Math.floor(score * (last + 1)));
  if ((guess === 0 || score >= edges[guess - 1]!) && (guess === last || score < edges[guess]!)) return guess;
  let [low, high] = [0, last];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle]! <= score) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Edges midway between the last score of one run and the first of the next, runs as `numpy.array_split` cuts sorted
 * scores. Equal scores (see `TIE`) stay together, so that there may be fewer bins.
 */
function massEdges(scores: Float64Array, bins: number): number[] {
  const sorted = Float64Array.from(scores).sort();
  const n = sorted.length;
  const edges: number[] = [];
  let cut = 0;
  for (let k = 0; k < Math.min(bins, n) - 1; k++) {
    cut += Math.floor(n / bins) + (k < n % bins ? 1 : 0);
    const [below, above] = [sorted[cut - 1]!, sorted[cut]!];
    if (above > below * TIE) edges.push(below + (above - below) / 2);
  }
  return edges;
}

function fitMap({ scores: [scores], outcomes }: BinaryData, bins: number, equalMass: boolean): HistogramMap {
  const edges = equalMass ? massEdges(scores, bins) : Array.from({ length: bins - 1 }, (_, k) => (k + 1) / bins);
  const counts = new Array<number>(edges.length + 1).fill(0);
  const ones = new Array<number>(edges.length + 1).fill(0);
  for (let i = 0; i < scores.length; i++) {
    const bin = binOf(edges, scores[i]!);
    counts[bin]!++;
    ones[bin]! += outcomes[i]!;
  }
  const right = ones.reduce((a, b) => a + b, 0);
  const status = (): PosthocStatus => {
    if (right === 0 || right === outcomes.length) return 'class-absent';
    const [some] = scores;
    const same = scores.every((score) => score <= some! * TIE && some! <= score * TIE);
    return same ? 'constant-scores' : 'converged';
  };
  return {
    status: status(),
    edges,
    values: counts.map((n, k) => (n > 0 ? ones[k]! / n : ((edges[k - 1] ?? 0) + (edges[k] ?? 1)) / 2)),
    counts,
  };
}

/**
 * Histogram binning (Zadrozny and Elkan 2001): a probability becomes the rate of the label in its bin [lo, hi), the last
 * one closed; in an empty bin, the middle of the bin (as netcal). See `Construction` for how maps make a probability
 * vector.
 */
export const histogram: PosthocMethod<z.output<typeof options>, Mapped<HistogramMap>> = {
  about: 'the rate of the label in the bin of a probability (Zadrozny and Elkan 2001)',
  options,
  parameters: mappedSchema(
    z
      .object({
        status: z.enum(STATUSES),
        edges: z.array(z.number()),
        values: z.array(z.number().min(0).max(1)),
        counts: z.array(z.int().min(0)),
      })
      .refine(
        ({ edges, values, counts }) =>
          values.length === edges.length + 1 &&
          counts.length === values.length &&
          edges.every((edge, k) => k === 0 || edge > edges[k - 1]!),
        { message: 'expected ascending edges, and one more value and count' },
      ),
  ),

  fit(data, { construction, bins, binning }) {
    return fitMaps(data, construction, 'probs', (problem) => fitMap(problem, bins, binning === 'equal-mass'));
  },

  apply(parameters, row) {
    return applyMaps(parameters, row, 'probs', ({ edges, values }, other, p) => {
      const q = values[binOf(edges, p)]!;
      return other ? 1 - q : q;
    });
  },
};
