import type { z } from 'zod';
import { UsageError } from '../../base/errors';
import { pick, unknownName } from '../../base/pick';
import { type AnyMethod, POSTHOC, type PosthocName } from './fit';

/**
 * `key=value` texts as options of a method: numbers where the option wants one, else words.
 * @throws UsageError on a text of another form, and on an option that is none
 */
export function posthocOptionsFromTexts(method: string, texts: readonly string[]): Record<string, unknown> {
  const shape: Record<string, z.ZodType> = pick<AnyMethod>('method', method, POSTHOC).options.shape;
  return Object.fromEntries(
    texts.map((text) => {
      const [key = '', ...rest] = text.split('=');
      const value = rest.join('=');
      if (rest.length === 0) {
        throw new UsageError(`"${text}" is not an option`, { remedy: 'write --set name=value' });
      }
      const schema = Object.hasOwn(shape, key) ? shape[key] : undefined;
      if (!schema) throw unknownName(`option of ${method}`, key, Object.keys(shape));
      const number = value.trim() === '' ? NaN : Number(value);
      return [key, schema.safeParse(value).success || Number.isNaN(number) ? value : number];
    }),
  );
}

/** The methods and their options, with defaults and meanings, as lines of a help text. */
export function describePosthoc(): string {
  return (Object.keys(POSTHOC) as PosthocName[])
    .flatMap((name) => {
      const method: AnyMethod = POSTHOC[name];
      const options = Object.entries(method.options.shape as Record<string, z.ZodType>).map(([option, schema]) => {
        const preset = schema.safeParse(undefined).data as string | number;
        return `      ${`${option}=${preset}`.padEnd(26)} ${schema.description ?? ''}`.trimEnd();
      });
      return [`  ${name.padEnd(12)} ${method.about}`, ...options];
    })
    .join('\n');
}
