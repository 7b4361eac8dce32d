import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { CalmError } from '../base/errors';
import { AtomicFile, readJson, readJsonl, toJson } from '../base/files';
import type { OpenRow } from './open-ended';
import type { GenerationRow, Result, Row, TextRow } from './types';

const number = z.preprocess(
  (v) => (v === 'NaN' || v === 'Infinity' || v === '-Infinity' ? Number(v) : v),
  z.custom<number>((v) => typeof v === 'number', 'expected a number'),
);
const metric = z.object({
  value: number.nullable(),
  stderr: number.nullable(),
  interval: z.tuple([number, number]).nullable(),
  higher_is_better: z.boolean(),
});
const bin = z.object({
  lo: z.number(),
  hi: z.number(),
  count: z.number(),
  mean_confidence: z.number().nullable(),
  accuracy: z.number().nullable(),
});
const schema = z.object({
  results: z.array(
    z.object({
      task: z.string(),
      task_version: z.number(),
      source: z.string(),
      split: z.string(),
      scoring: z.enum(['letter', 'cloze', 'continuation', 'rolling', 'generate', 'semantic']),
      normalisation: z.enum(['none', 'token', 'byte']),
      shots: z.number().default(0), // absent in the results of versions without examples
      chat: z.enum(['single', 'multiturn']).optional(),
      system: z.string().optional(),
      calibration: z.string(),
      temperature: number.optional(),
      model: z.string(),
      model_hash: z.string(),
      adapter_hash: z.string().optional(),
      head: z.boolean().optional(),
      code_version: z.string(),
      engine: z.string(),
      seed: z.number(),
      n: z.number(),
      truncated: z.number(),
      skipped: z.number(),
      invalid: z.number(),
      excluded: z.array(z.object({ doc_id: z.string(), reason: z.string() })).default([]),
      ties: z.number().default(0),
      wall_seconds: z.number(),
      metrics: z.record(z.string(), metric),
      topics: z
        .array(z.object({ topic: z.string(), n: z.number(), value: number.nullable(), stderr: number.nullable() }))
        .optional(),
      bins: z.object({ confidence: z.array(bin), classwise_total: z.array(bin) }),
      binning: z.record(z.string(), z.unknown()),
    }),
  ),
});

/** A result without its rows, as `results.json` holds it. */
export type ResultSummary = Omit<Result, 'rows'>;

/**
 * Writes `results.json` (one entry a result) and `rows.jsonl` (one row an item, with scoring and calibration) into a
 * folder. Both appear whole or not at all.
 * @throws CalmError when they cannot be written
 */
export function writeResults(
  folder: string,
  results: readonly Result<Row | TextRow | GenerationRow | OpenRow>[],
): void {
  const rows = new AtomicFile(path.join(folder, 'rows.jsonl'));
  let summary: AtomicFile | undefined;
  try {
    summary = new AtomicFile(path.join(folder, 'results.json'));
    for (const { rows: items, scoring, calibration } of results) {
      for (const row of items) rows.write(`${toJson({ ...row, scoring, calibration })}\n`);
    }
    summary.write(`${toJson({ results: results.map(({ rows: _rows, ...rest }) => rest) }, 2)}\n`);
    rows.commit();
    summary.commit();
  } finally {
    rows.discard();
    summary?.discard();
  }
}

/**
 * Reads the `results.json` of a run: a folder written by `writeResults`, or the file itself.
 * @throws CalmError when it is missing or not such a file
 */
export function readResults(run: string): ResultSummary[] {
  const file = fs.existsSync(run) && fs.statSync(run).isDirectory() ? path.join(run, 'results.json') : run;
  const parsed = schema.safeParse(readJson(file));
  if (parsed.success) return parsed.data.results;
  const issue = parsed.error.issues[0];
  throw new CalmError(`${file} is not a results file: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`, {
    remedy: 'name a folder written by "calm eval --out"',
  });
}

/** Reads the rows of a run with their scoring and calibration. */
export async function readRows(folder: string): Promise<(Row & { scoring: string; calibration: string })[]> {
  const rows: (Row & { scoring: string; calibration: string })[] = [];
  for await (const { value } of readJsonl(path.join(folder, 'rows.jsonl'))) rows.push(value as (typeof rows)[number]);
  return rows;
}
