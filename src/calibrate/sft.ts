import type { Method } from '../train/loop';
import type { Context } from './context';
import { crossEntropy } from './criterion';
import type { MethodOptions } from './options';
import { singleLevel } from './single-level';

/** Supervised fine-tuning: cross-entropy alone. */
export function sft(context: Context<MethodOptions<'sft'>>): Method {
  return singleLevel(context, { at: () => ({ criterion: crossEntropy }) });
}
