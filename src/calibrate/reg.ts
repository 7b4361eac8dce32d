import type { Method } from '../train/loop';
import type { Context } from './context';
import { crossEntropy, negativeEntropy, negativeSelfLabel, weightedSum } from './criterion';
import type { MethodOptions } from './options';
import { singleLevel } from './single-level';

/**
 * Regularization (C.2 of the CALM paper): CE(y, p) - a CE(p', p), where p' is the model's own prediction: the distribution
 * itself, so that the term is its entropy, or (`hard`) its most likely token.
 */
export function reg(context: Context<MethodOptions<'reg'>>): Method {
  const { penalty, self } = context.options;
  const confident = self === 'soft' ? negativeEntropy : negativeSelfLabel;
  const criterion = weightedSum([1, crossEntropy], [penalty, confident]);
  return singleLevel(context, { at: () => ({ criterion }) });
}
