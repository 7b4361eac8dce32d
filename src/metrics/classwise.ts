import { binTable, type BinRow } from './bins';
import { checkNotEmpty, checkSameLength } from './check';
import { expectedGap } from './ece';
import type { Predictions } from './predictions';
import { mean } from './scores';

export interface Pairs {
  values: number[];
  outcomes: number[];
}

/**
 * The pairs (p_j, label = j) of each class j: one a row that has option j. The number of classes is that of the row
 * with most options, not of the labels that occur.
 */
export function classPairs({ probs, labels }: Predictions): Pairs[] {
  checkSameLength(probs, labels, 'rows', 'labels');
  checkNotEmpty(probs.length);
  const classes: Pairs[] = [];
  probs.forEach((row, i) =>
    row.forEach((p, j) => {
      const pairs = (classes[j] ??= { values: [], outcomes: [] });
      pairs.values.push(p);
      pairs.outcomes.push(labels[i] === j ? 1 : 0);
    }),
  );
  return classes;
}

/** Class-wise errors over equal-width bins: `mean` is cw-ECE. */
export interface ClasswiseEce {
  mean: number;
  max: number;
  per_class: number[];
}

/**
 * Class-wise expected calibration error: for each class the ECE of its pairs, all of them in the denominator.
 * Where rows differ in their number of options, the N of class j counts the rows that have it.
 * @throws CalmError without rows
 */
export function classwiseEce(predictions: Predictions, bins = 10): ClasswiseEce {
  const perClass = classPairs(predictions).map(({ values, outcomes }) => expectedGap(binTable(values, outcomes, bins)));
  return { mean: mean(perClass), max: Math.max(...perClass), per_class: perClass };
}

/** cw-ECE, the mean over classes (CALM paper, Eq. 14). @throws CalmError without rows. */
export function cwEce(predictions: Predictions, bins = 10): number {
  return classwiseEce(predictions, bins).mean;
}

/** The "classwise (total)" table: the pairs of all classes in one. Its counts add up to the number of options. */
export function classwiseTotalTable(predictions: Predictions, bins = 10): BinRow[] {
  const classes = classPairs(predictions);
  return binTable(
    classes.flatMap((pairs) => pairs.values),
    classes.flatMap((pairs) => pairs.outcomes),
    bins,
  );
}
