import * as fs from 'node:fs';
import * as path from 'node:path';
import { readJson, readJsonl, toJson } from '../base/files';
import { FILES, pointFolder } from './perform';
import { configurationKey, configurationOf, selectPoint, type Configuration, type Selection } from './select';
import type { Point, PointRow } from './types';

/** The configuration chosen for a method. */
export interface Chosen extends Selection<Configuration> {
  model: string;
  setting: string;
  label: string;
  /** How many configurations the plan has of it, and how many of them lack seeds and were not considered. */
  configurations: number;
  incomplete: number;
}

/** A head of one d and l for all tokens beside one for each (CALM paper, C.5): metrics on test, of the chosen points. */
export interface HeadComparison {
  model: string;
  setting: string;
  metric: string;
  scalar: { label: string; mean: number | null };
  vector: { label: string; mean: number | null };
  /** Scalar minus vector. */
  difference: number | null;
}

/** What a method cost, as its points measured it. */
export interface CostLine {
  model: string;
  setting: string;
  label: string;
  points: number;
  wall_seconds: { mean: number; total: number };
  train_seconds: { mean: number; total: number };
  /** Of the largest point. */
  peak_memory_mib: number;
  tokens_trained: number;
  /** null where nothing was trained. */
  tokens_per_second: number | null;
}

export interface Summary {
  plan: string;
  points: number;
  done: number;
  missing: string[];
  /** More than one where the code has changed between points. */
  code_versions: string[];
  chosen: Chosen[];
  scalar_against_vector: HeadComparison[];
  costs: CostLine[];
}

type Planned = Pick<Point, 'id' | 'model' | 'setting' | 'label' | 'method' | 'options' | 'seed'>;

/** The rows that are there, in the order of the points. */
export function readPointRows(points: readonly Point[], out: string): PointRow[] {
  return points.flatMap(({ id }) => {
    const file = path.join(pointFolder(out, id), FILES.row);
    return fs.existsSync(file) ? [readJson(file) as PointRow] : [];
  });
}

/** The rows of a sweep, from its `rows.jsonl`. @throws CalmError when it cannot be read */
export async function readPointRowsFile(file: string): Promise<PointRow[]> {
  const rows: PointRow[] = [];
  for await (const { value } of readJsonl(file)) rows.push(value as PointRow);
  return rows;
}

/** Selects, aggregates over seeds and adds up costs. @param points all that there should be rows of */
export function summariseRows(plan: string, points: readonly Planned[], rows: readonly PointRow[]): Summary {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const chosen = [...groups(points, ({ model, setting, label }) => toJson([model, setting, label])).values()].map(
    (group): Chosen => {
      const { model, setting, label } = group[0]!;
      const base = points.filter((p) => p.method === 'baseline' && p.model === model && p.setting === setting);
      const baseRows = base.flatMap(({ id }) => byId.get(id) ?? []);
      const configurations = [...groups(group, configurationKey).values()];
      const complete = configurations.flatMap((one) => {
        const found = one.flatMap(({ id }) => byId.get(id) ?? []);
        return found.length === one.length ? [configurationOf(found)] : [];
      });
      const selection = selectPoint(
        complete,
        ({ validation }) => ({
          accuracy: validation['accuracy']?.mean ?? null,
          confEce: validation['conf_ece']?.mean ?? null,
        }),
        baseRows.length > 0 && baseRows.length === base.length
          ? (configurationOf(baseRows).validation['accuracy']?.mean ?? null)
          : null,
      );
      return {
        model: path.basename(model),
        setting,
        label,
        configurations: configurations.length,
        incomplete: configurations.length - complete.length,
        ...selection,
      };
    },
  );
  return {
    plan,
    points: points.length,
    done: rows.length,
    missing: points.filter(({ id }) => !byId.has(id)).map(({ id }) => id),
    code_versions: [...new Set(rows.map(({ code_version }) => code_version))],
    chosen,
    scalar_against_vector: compareHeads(chosen),
    costs: costTable(rows),
  };
}

const COMPARED = ['accuracy', 'conf_ece', 'cw_ece', 'brier', 'nll'];

/** Every pair of chosen points of one method that differ in the kind of their head. */
export function compareHeads(chosen: readonly Chosen[]): HeadComparison[] {
  const withHead = (kind: string) =>
    chosen.flatMap(({ chosen: one, label, model, setting }) =>
      one?.options['head'] === kind ? [{ one, label, model, setting }] : [],
    );
  return withHead('scalar').flatMap((scalar) =>
    withHead('vector')
      .filter(
        ({ one, model, setting }) =>
          one.method === scalar.one.method && model === scalar.model && setting === scalar.setting,
      )
      .flatMap((vector) =>
        COMPARED.map((metric): HeadComparison => {
          const [a, b] = [scalar.one.test[metric]?.mean ?? null, vector.one.test[metric]?.mean ?? null];
          return {
            model: scalar.model,
            setting: scalar.setting,
            metric,
            scalar: { label: scalar.label, mean: a },
            vector: { label: vector.label, mean: b },
            difference: a === null || b === null ? null : a - b,
          };
        }),
      ),
  );
}

/** Wall time, memory and tokens by model, setting and method, from what each point measured of itself. */
export function costTable(rows: readonly PointRow[]): CostLine[] {
  const mean = (values: readonly number[]) => total(values) / values.length;
  return [...groups(rows, ({ model, setting, label }) => toJson([model, setting, label])).values()].map((group) => {
    const { model, setting, label } = group[0]!;
    const costs = group.map(({ cost }) => cost);
    const wall = costs.map((cost) => cost.wall_seconds);
    const train = costs.map((cost) => cost.train_seconds);
    const tokens = total(costs.map((cost) => cost.tokens_trained));
    return {
      model,
      setting,
      label,
      points: group.length,
      wall_seconds: { mean: mean(wall), total: total(wall) },
      train_seconds: { mean: mean(train), total: total(train) },
      peak_memory_mib: Math.max(...costs.map((cost) => cost.peak_memory_mib)),
      tokens_trained: tokens,
      tokens_per_second: tokens > 0 ? tokens / total(train) : null,
    };
  });
}

const total = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

function groups<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const item of items) found.set(key(item), [...(found.get(key(item)) ?? []), item]);
  return found;
}
