import { METHODS, parseOptions } from '../calibrate/options';
import { pick } from '../base/pick';

/** Methods that leave the model as it is: asked alone, or with a temperature fitted on the validation questions. */
export const UNTRAINED = ['baseline', 'ts'] as const;

/** Other names for a method with some of its options set. */
const ALIASES: Readonly<Record<string, { method: string; options: Record<string, unknown> }>> = {
  'calm-scalar': { method: 'calm', options: { head: 'scalar' } },
};

export const isTrained = (method: string): boolean => !(UNTRAINED as readonly string[]).includes(method);

/** What a plan's name for a method stands for. @throws UsageError for one that does not exist, with the nearest */
export function resolveMethod(name: string): { method: string; options: Record<string, unknown> } {
  const plain = [...UNTRAINED, ...Object.keys(METHODS)].map((method) => [method, { method, options: {} }]);
  return pick('method', name, { ...ALIASES, ...(Object.fromEntries(plain) as typeof ALIASES) });
}

/** The names of a training method's options; none for others. */
export function optionNames(method: string): string[] {
  return isTrained(method) ? Object.keys(pick<{ shape: object }>('method', method, METHODS).shape) : [];
}

/** Options checked and filled with their defaults. @throws UsageError that names the option */
export function completeOptions(method: string, options: Record<string, unknown>): Record<string, unknown> {
  return isTrained(method) ? parseOptions(method as keyof typeof METHODS, options) : {};
}
