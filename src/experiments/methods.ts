import { z } from 'zod';
import { METHODS, parseOptions } from '../calibrate/options';
import { UsageError } from '../base/errors';
import { pick } from '../base/pick';

/** The options of temperature scaling. */
const TS = z.strictObject({
  /**
   * What the temperature is fitted on: the options of the validation questions; where the training data are instructions
   * (the paper's out-of-domain setting), the tokens of their outputs, or four-option questions made of them (C.2).
   */
  fit: z.enum(['validation', 'tokens', 'synthetic']).default('validation'),
  /** Instructions used, the first ones. */
  limit: z.int().min(1).default(200),
});
export type TsOptions = z.output<typeof TS>;

/** Methods that leave the model as it is, and their options: asked alone, or with a temperature. */
const UNTRAINED = { baseline: z.strictObject({}), ts: TS };

/** Other names for a method with some of its options set. */
const ALIASES: Readonly<Record<string, { method: string; options: Record<string, unknown> }>> = {
  'calm-scalar': { method: 'calm', options: { head: 'scalar' } },
};

export const isTrained = (method: string): boolean => !Object.hasOwn(UNTRAINED, method);

/** What a plan's name for a method stands for. @throws UsageError for one that does not exist, with the nearest */
export function resolveMethod(name: string): { method: string; options: Record<string, unknown> } {
  const plain = [...Object.keys(UNTRAINED), ...Object.keys(METHODS)].map((method) => [method, { method, options: {} }]);
  return pick('method', name, { ...ALIASES, ...(Object.fromEntries(plain) as typeof ALIASES) });
}

/** The names of a method's options. */
export function optionNames(method: string): string[] {
  return Object.keys(pick<{ shape: object }>('method', method, { ...UNTRAINED, ...METHODS }).shape);
}

/** Options checked and filled with their defaults. @throws UsageError that names the option */
export function completeOptions(method: string, options: Record<string, unknown>): Record<string, unknown> {
  if (isTrained(method)) return parseOptions(method, options);
  const parsed = UNTRAINED[method as keyof typeof UNTRAINED].safeParse(options);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new UsageError(`option ${issue.path.join('.')}: ${issue.message}`);
}

/** Whether a method takes something from the rows that the upper level of training methods has. */
export function usesInstructions(method: string, options: Record<string, unknown>): boolean {
  return method === 'ts' && (options as TsOptions).fit !== 'validation';
}
