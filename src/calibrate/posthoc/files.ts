import { z } from 'zod';
import { CalmError } from '../../base/errors';
import { toJson } from '../../base/files';
import { type AnyMethod, POSTHOC, type PosthocFit, type PosthocName } from './fit';

const nll = z.union([z.number(), z.literal('Infinity').transform(() => Infinity)]);
const header = z.object({
  version: z.literal(1),
  method: z.enum(Object.keys(POSTHOC) as [PosthocName, ...PosthocName[]]),
  n: z.int().positive(),
  nll_before: nll,
  nll_after: nll,
});

/** The text of a file with a fitted calibrator. */
export function posthocToJson(fitted: PosthocFit): string {
  return `${toJson(fitted, 2)}\n`;
}

/**
 * A fitted calibrator from parsed JSON, such as `readJson` gives; keys beyond those of a fit are dropped.
 * @throws CalmError that says what is wrong with it
 */
export function posthocFromJson(value: unknown): PosthocFit {
  const head = header.safeParse(value);
  const method: AnyMethod | undefined = head.success ? POSTHOC[head.data.method] : undefined;
  const parameters = method?.parameters.safeParse(value);
  const error = head.error ?? parameters?.error;
  if (!error) {
    const { version, method: name, ...numbers } = head.data!;
    const { status, ...own } = parameters!.data!;
    return { version, method: name, status, ...own, ...numbers } as unknown as PosthocFit;
  }
  const issue = error.issues[0]!;
  throw new CalmError(`not a post-hoc calibrator: ${issue.path.join('.') || 'it'}: ${issue.message}`, {
    remedy: 'make one with calm fit',
    cause: error,
  });
}
