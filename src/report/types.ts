import type { Result } from '../evaluate/types';

/** What a report needs of an evaluation's result: who was asked what, how it was scored, and what came out. */
export type ReportedResult = Pick<
  Result,
  'model' | 'task' | 'scoring' | 'calibration' | 'temperature' | 'n' | 'metrics' | 'bins'
> &
  Partial<Pick<Result, 'shots'>>;

/** One flat row of a table, frame or CSV file. */
export type Row = Record<string, string | number | boolean | null>;
