import type { DataFrame } from 'danfojs-node';
import type { ReportedResult, Row } from './types';
import { columnNames, resultsTable } from './table';

// Every column is printed, as wide as its values need; by default the middle ones are left out.
const CONFIG = { tableMaxColInConsole: 100, tableDisplayConfig: { columns: {}, columnDefault: { truncate: 24 } } };

/**
 * A danfo.js frame of result rows (a result stands for its row of `resultsTable`). The type of each column is decided
 * here from all of its values, because danfo.js looks at the first rows only: `string` where any value is a string,
 * else `boolean`, `int32` or `float32`. Numbers keep every digit and their infinities; a missing number is NaN.
 */
export function frame(rows: readonly Row[] | readonly ReportedResult[]): DataFrame {
  const table = isResults(rows) ? resultsTable(rows) : rows;
  const columns = columnNames(table);
  const types = columns.map((column) => typeOf(table.map((row) => row[column] ?? null)));
  const values = table.map((row) => columns.map((column, k) => row[column] ?? (types[k] === 'float32' ? NaN : null)));
  // Loaded when first used: danfo.js takes a second to start.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  const danfo = require('danfojs-node') as typeof import('danfojs-node');
  return new danfo.DataFrame(values, { columns, dtypes: types, config: CONFIG });
}

function isResults(rows: readonly Row[] | readonly ReportedResult[]): rows is readonly ReportedResult[] {
  return typeof rows[0]?.['metrics'] === 'object';
}

function typeOf(values: readonly Row[string][]): 'string' | 'boolean' | 'int32' | 'float32' {
  if (values.some((value) => typeof value === 'string')) return 'string';
  if (values.every((value) => typeof value === 'boolean')) return 'boolean';
  return values.every((value) => Number.isInteger(value)) ? 'int32' : 'float32';
}
