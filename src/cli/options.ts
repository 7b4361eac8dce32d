import { InvalidArgumentError, type Command } from 'commander';
import * as fs from 'node:fs';
import type { z } from 'zod';
import { CalmError } from '../base/errors';
import { WEIGHT_FORMATS, type WeightFormat } from '../model/weight-formats';
import { AtomicFile, readJsonl, toJson } from '../base/files';

/** Parses an integer from `least` to `most`. */
export function integer(least: number, most = Infinity): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(
      `Expected an integer ${most === Infinity ? `of at least ${least}` : `from ${least} to ${most}`}.`,
    );
  };
}

/** Parses a number of items, or below 1 a share of them. */
export function countOrShare(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value > 0 && (value < 1 || Number.isSafeInteger(value))) return value;
  throw new InvalidArgumentError('Expected a positive integer, or a share between 0 and 1.');
}

/** What `withModel` adds. */
export interface ModelOptions {
  model: string;
  weights: WeightFormat;
  adapter?: string;
  /** Not false unless --no-head was given. */
  head?: boolean;
}

/** A verb that runs a model, as it is or with what was trained on it. */
export function withModel(verb: Command): Command {
  return verb
    .requiredOption('--model <model>', 'preset, .gguf file, or folder in Hugging Face layout')
    .option(
      '--weights <form>',
      'how it is held: float32, stored (as in its file) or nf4',
      oneOf(WEIGHT_FORMATS),
      'float32',
    )
    .option('--adapter <folder>', "a LoRA adapter in PEFT's format, with its calibration head where it has one")
    .option('--no-head', "leave the adapter's calibration head out");
}

/** More bins than any diagram shows; far more would not fit in memory. */
export const MOST_BINS = 10_000;

/** Parses a number from `low` to `high`. */
export function number(low: number, high = Infinity): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && value >= low && value <= high && Number.isFinite(value)) return value;
    throw new InvalidArgumentError(
      `Expected a number ${high === Infinity ? `from ${low}` : `from ${low} to ${high}`}.`,
    );
  };
}

/** Parses one of the words. */
export function oneOf<T extends string>(words: readonly T[]): (text: string) => T {
  return (text) => {
    const found = words.find((word) => word === text);
    if (found === undefined) throw new InvalidArgumentError(`Expected one of ${words.join(', ')}.`);
    return found;
  };
}

/** Parses a list separated by commas. */
export function list(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  if (items.some((item) => item === '')) throw new InvalidArgumentError('Expected names separated by commas.');
  return items;
}

/** One row of an input file, and what an error calls it. */
export interface InputRow<T> {
  row: T;
  where: string;
}

/** Reads a JSON-lines file whose rows satisfy `schema`. @throws CalmError that names file, line and field */
export async function readRows<T>(file: string, schema: z.ZodType<T>, expected: string): Promise<InputRow<T>[]> {
  const rows: InputRow<T>[] = [];
  for await (const { value, where } of readJsonl(file)) {
    const parsed = schema.safeParse(value);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      const field = issue?.path.length ? `field "${issue.path.join('.')}": ` : '';
      throw new CalmError(`${where}: ${field}${issue?.message ?? 'not understood'}`, {
        remedy: `expected ${expected}`,
      });
    }
    rows.push({ row: parsed.data, where });
  }
  return rows;
}

/**
 * Fails before the work, rather than after it, where a file cannot be written. A pipe is left alone: its reader would
 * take the closing of it for the end.
 * @throws CalmError
 */
export function checkWritable(file: string): void {
  const kind = fs.existsSync(file) ? fs.statSync(file) : undefined;
  if (!kind || kind.isFile() || kind.isDirectory()) new AtomicFile(file).discard();
}

/** Writes a JSON-lines file, whole or not at all. @throws CalmError */
export function writeRows(file: string, rows: Iterable<unknown>): void {
  const out = new AtomicFile(file);
  try {
    for (const row of rows) out.write(`${toJson(row)}\n`);
    out.commit();
  } finally {
    out.discard();
  }
}

/** The result of a verb on stdout: one JSON object as the last line with `--json`, else words. */
export function finish(options: { json?: boolean }, result: unknown, words: string): void {
  process.stdout.write(`${options.json ? toJson(result) : words}\n`);
}
