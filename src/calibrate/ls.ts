import type { Example } from '../train/examples';
import type { Method } from '../train/loop';
import { amongOf, baseSureness, binAccuracies, binOf, type Context } from './context';
import { smoothed } from './criterion';
import type { MethodOptions } from './options';
import { singleLevel } from './single-level';

/**
 * Label smoothing (C.2 of the CALM paper): each label keeps as much of its probability as the base model is right on
 * training examples that it is as sure of, bin by bin, and gives the rest to the other options evenly; or gives away a
 * constant share.
 */
export function ls(context: Context<MethodOptions<'ls'>>): Method {
  const { epsilon, bins } = context.options;
  return singleLevel(
    { ...context, train: epsilon === undefined ? adaptive(context, bins) : constant(context.train, epsilon) },
    { at: () => ({ criterion: smoothed(amongOf(context)) }) },
  );
}

const constant = (rows: readonly Example[], epsilon: number) =>
  rows.map((row) => ({ ...row, smoothing: row.labels.map(() => epsilon) }));

function adaptive(context: Context<MethodOptions<'ls'>>, bins: number): Example[] {
  const sureness = baseSureness(context);
  const accuracies = binAccuracies(sureness, bins);
  return context.train.map((row, i) => ({
    ...row,
    smoothing: sureness[i]!.confidence.map((c) => 1 - accuracies[binOf(c, bins)]!),
  }));
}
