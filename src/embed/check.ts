import type { z } from 'zod';
import { CalmError } from '../base/errors';

/** The remedy where a folder holds another kind of model. */
const REMEDY = 'use all-MiniLM-L6-v2 or another sentence model of its kind';

/** @throws CalmError saying that `name` of the file `where` is `found` where this reads `wanted` only */
export function refuse(where: string, name: string, found: unknown, wanted: string): never {
  const shown = found === undefined ? 'missing' : (JSON.stringify(found) ?? 'something else').slice(0, 60);
  throw new CalmError(`${where}: ${name} is ${shown}, not ${wanted}`, { remedy: REMEDY });
}

/** Checks the `type` of one step in a `tokenizer.json`. @throws CalmError that names what it is instead */
export function expectType(where: string, json: unknown, step: string, wanted: string): void {
  const found = objectOf(objectOf(json)[step])['type'];
  if (found !== wanted) refuse(where, `the type of ${step}`, found, wanted);
}

/** The value as a schema has it. @throws CalmError with the first field that is not so */
export function parsed<T extends z.ZodType>(where: string, schema: T, value: unknown): z.output<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new CalmError(`${where}: ${issue?.path.join('.') || 'the content'}: ${issue?.message ?? 'not understood'}`);
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
