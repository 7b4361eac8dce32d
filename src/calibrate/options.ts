import { z } from 'zod';
import { UsageError } from '../base/errors';
import { pick, unknownName } from '../base/pick';
import { TARGETS } from '../model/targets';

const rate = z.number().min(0);
const count = z.int().min(1);

/** What every method has (C.1 of the CALM paper); where the paper is ambiguous, the choice is said at the option. */
const common = {
  rank: count.default(64).describe('LoRA rank (C.1)'),
  alpha: z.number().positive().default(32).describe('LoRA alpha (C.1); the scaling is alpha / rank'),
  dropout: z.number().min(0).lt(1).default(0.01).describe('LoRA dropout (C.1)'),
  rankStabilised: z.boolean().default(false).describe('scale by alpha / sqrt(rank) instead'),
  targets: z
    .array(z.enum(TARGETS))
    .min(1)
    .default([...TARGETS])
    .describe('layers: all linear ones but lm_head (C.1)'),
  space: z
    .enum(['vocabulary', 'choices'])
    .default('vocabulary')
    .describe('what competes in the softmax: all tokens (C.2), or the letters (Section 3)'),
  reduction: z.enum(['token', 'example']).default('token').describe('mean over tokens, or over examples'),
  format: z.enum(['letter', 'cloze']).default('letter').describe('how questions are put'),
  optimiser: z.enum(['adamw', 'sgd']).default('adamw').describe('C.1, or the plain steps of Algorithm 1'),
  batch: count.default(16).describe('examples in a batch'),
  epochs: count.default(5),
  warmupEpochs: z.number().min(0).default(1).describe('linear warm-up, then cosine (C.1)'),
  weightDecay: rate.default(0.02).describe('decoupled, of the adapter only: on a head it would pull d to 0'),
  clipNorm: z.number().positive().optional().describe('longest direction; longer ones are scaled down'),
  clip: z.number().positive().default(10).describe('box of the adapter; d stays in [0.001, 10], l in [-10, 10]'),
  batchTokens: count.default(4096).describe('tokens computed at once; bounds memory'),
  limit: count.optional().describe('first rows of each file'),
  seed: z.int().min(0).default(0),
};

/** What the two bilevel methods have. */
const bilevel = {
  ...common,
  head: z.enum(['vector', 'scalar']).default('vector').describe('d and l per vocabulary entry (C.2), or shared (C.5)'),
  upperRate: rate.default(1e-4).describe('rate of the head'),
  warmupEpochs: common.warmupEpochs.unwrap().default(2).describe('linear warm-up, then cosine (C.1)'),
};

const singleLevel = { ...common, rate: rate.default(1e-4).describe('learning rate') };
const bins = count.default(10).describe('equal bins of confidence');
const self = z
  .enum(['soft', 'hard'])
  .default('soft')
  .describe('the prediction p is compared with: p itself (its entropy), or its most likely token');

const CALM = z.strictObject({
  ...bilevel,
  lowerRate: rate
    .default(1e-2)
    .describe('rate of the adapter, and of the inner steps (rho): the paper has one "lower LR"'),
  innerSteps: z.int().min(0).default(20).describe('T, inner steps per outer iteration (C.8), each on its own batch'),
  outerPerEpoch: count.optional().describe('outer iterations per epoch; by default one per T training batches'),
  gamma: z.number().min(0).default(0.5).describe("BOME's coefficient (eta in C.2)"),
  residual: z
    .enum(['danskin', 'frozen'])
    .default('danskin')
    .describe('alpha part of the residual: differentiated (A.1), or as Eq. 12 writes it'),
  barrier: z.enum(['gradient', 'value']).default('gradient').describe('phi: gamma |g_q|^2 (A.3), or gamma q'),
});

/** Training methods by name, with their options and defaults. */
export const METHODS = {
  calm: CALM,
  sft: z.strictObject(singleLevel),
  ls: z.strictObject({
    ...singleLevel,
    epsilon: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe('a constant share instead of 1 - the accuracy of the bin (C.2)'),
    bins,
  }),
  cft: z.strictObject({
    ...singleLevel,
    calibrationWeight: z.number().min(0).max(1).default(0.5).describe('alpha of CFT (C.2)'),
    calibrationScale: z.number().min(0).default(1e-3).describe('c (C.2)'),
    bins,
    accuracies: z
      .enum(['fresh', 'frozen'])
      .default('fresh')
      .describe('of bins: of the model as it learns, or of the base model on the training set'),
  }),
  reg: z.strictObject({
    ...singleLevel,
    epochs: common.epochs.describe('5 in domain, 30 out of domain (C.2)'),
    penalty: z.number().min(0).default(1e-5).describe('alpha of the confidence penalty (Table 5: 1e-5, 1e-6)'),
    self,
  }),
  iterate: z.strictObject({
    ...bilevel,
    lowerRate: rate.default(1e-2).describe('rate of the adapter'),
    lowerSteps: count.default(20).describe('steps of the adapter per epoch (C.2); then the head takes one'),
    upperTask: z.number().min(0).default(0.9).describe("weight of the cross-entropy in the head's loss (C.2)"),
    self,
  }),
  dpo: z.strictObject({
    ...singleLevel,
    beta: z.number().positive().default(0.1).describe('strength of the tie to the reference model'),
  }),
} as const;

export type MethodName = keyof typeof METHODS;
export type MethodOptions<M extends MethodName> = z.output<(typeof METHODS)[M]>;
export type CalmOptions = MethodOptions<'calm'>;
export type SingleLevelOptions = MethodOptions<'sft'>;
/** What every method has. */
export type CommonOptions = z.output<z.ZodObject<typeof common>>;

/** Options checked and filled with their defaults. @throws UsageError that names the option */
export function parseOptions<M extends MethodName>(method: M | (string & {}), options: object): MethodOptions<M> {
  const schema = pick('method', method, METHODS as Record<string, z.ZodObject>);
  const parsed = schema.safeParse(options);
  if (parsed.success) return parsed.data as MethodOptions<M>;
  const issue = parsed.error.issues[0]!;
  if (issue.code === 'unrecognized_keys') {
    throw unknownName(`option of ${method}`, issue.keys[0]!, Object.keys(schema.shape));
  }
  throw new UsageError(`option ${issue.path.join('.')}: ${issue.message}`);
}

/** `key=value` texts as options: numbers, booleans, lists separated by commas, and words, as the option wants. */
export function optionsFromTexts(method: string, texts: readonly string[]): Record<string, unknown> {
  const shape: Record<string, z.ZodType> = pick('method', method, METHODS as Record<string, z.ZodObject>).shape;
  return Object.fromEntries(
    texts.map((text) => {
      const [key, ...value] = text.split('=');
      if (key === undefined || value.length === 0) {
        throw new UsageError(`"${text}" is not an option`, { remedy: 'write --set name=value' });
      }
      return [key, readOption(shape[key], value.join('='))];
    }),
  );
}

function readOption(schema: z.ZodType | undefined, text: string): unknown {
  const asNumber = text.trim() === '' ? NaN : Number(text);
  const candidates: unknown[] = [
    text,
    asNumber,
    text === 'true' ? true : text === 'false' ? false : text,
    text.split(','),
  ];
  return candidates.find((candidate) => schema?.safeParse(candidate).success) ?? text;
}

/** One line an option: its name, default and meaning. */
export function describeOptions(method: string): string {
  const { shape } = pick('method', method, METHODS as Record<string, z.ZodObject>);
  return Object.entries(shape as Record<string, z.ZodType>)
    .map(([name, schema]) => {
      const preset = schema.safeParse(undefined).data as string | number | string[] | undefined;
      return `  ${`${name}=${preset === undefined ? '' : String(preset)}`.padEnd(28)} ${schema.description ?? ''}`.trimEnd();
    })
    .join('\n');
}
