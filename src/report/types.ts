import type { BinRow } from '../metrics';

/** One metric of a result, with its standard error and 95 % interval where they were computed. */
export interface MetricValue {
  value: number | null;
  stderr?: number | null;
  interval?: [number, number] | null;
  higher_is_better: boolean;
}

/** What a report needs of an evaluation: who was asked what, how it was scored, and what came out. */
export interface ReportedResult {
  model: string;
  task: string;
  scoring: string;
  calibration: string;
  /** Items scored. */
  n: number;
  /** The fitted temperature, where the calibration has one; 0 and Infinity are its limits. */
  temperature?: number | null;
  metrics: Record<string, MetricValue>;
  bins: { confidence: BinRow[]; classwise_total: BinRow[] };
}

/** One flat row of a table, frame or CSV file. */
export type Row = Record<string, string | number | boolean | null>;
