import * as path from 'node:path';
import { readJson } from '../base/files';
import { pick } from '../base/pick';
import { PACKAGE_ROOT } from '../base/presets';

export type PaperRow = Record<string, string | number | null>;

export interface PaperTable {
  id: string;
  /** The section. */
  where: string;
  caption: string;
  columns: string[];
  rows: PaperRow[];
}

/** A table of the CALM paper as it is printed, `T1` to `T12`; see `datasets/paper`. @throws UsageError for another */
export function paperTable(id: string): PaperTable {
  const { tables } = readJson(path.join(PACKAGE_ROOT, 'datasets', 'paper', 'tables.json')) as { tables: PaperTable[] };
  return pick('table', id, Object.fromEntries(tables.map((table) => [table.id, table])));
}
