import { readJsonl } from '../base/files';
import { checkPredictions, type Predictions } from '../metrics';

/** Predictions of a JSON-lines file, and what an error calls each row. */
export async function readPredictions(
  file: string,
): Promise<{ rows: unknown[]; predictions: Predictions; where: (row: number) => string }> {
  const rows: unknown[] = [];
  const names: string[] = [];
  for await (const { value, where } of readJsonl(file)) {
    rows.push(value);
    names.push(where);
  }
  const where = (row: number) => names[row] ?? `row ${row + 1}`;
  return { rows, predictions: checkPredictions(rows, { where }), where };
}
