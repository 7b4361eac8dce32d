import { tf } from '../engine/backend';
import { map } from '../engine/tree';
import type { Method } from '../train/loop';
import type { Context } from './context';
import { clipHead, identityHead, type Head } from './head';
import type { CommonOptions } from './options';

interface TwoLevelOptions extends CommonOptions {
  head: 'vector' | 'scalar';
  lowerRate: number;
  upperRate: number;
}

/** What the methods with a head above and an adapter below have in common. */
export function twoLevels({
  model,
  adapter,
  options,
  identity,
}: Context<TwoLevelOptions>): Pick<
  Method,
  'identity' | 'variables' | 'groups' | 'optimiser' | 'clipNorm' | 'project' | 'mostLoss'
> {
  const { vocabSize } = model.config;
  return {
    identity,
    variables: { head: identityHead(options.head === 'scalar' ? 1 : vocabSize), adapter },
    groups: {
      // No decay on the head: it would pull d to 0, not to the identity.
      head: { rate: options.upperRate, weightDecay: 0 },
      adapter: { rate: options.lowerRate, weightDecay: options.weightDecay },
    },
    optimiser: { optimiser: options.optimiser },
    clipNorm: options.clipNorm,
    project: ({ head, adapter: blocks }) => ({
      head: tf.tidy(() => clipHead(head as Head)),
      adapter: map(blocks, (leaf) => tf.clipByValue(leaf, -options.clip, options.clip)),
    }),
    mostLoss: 3 * Math.log(vocabSize),
  };
}
