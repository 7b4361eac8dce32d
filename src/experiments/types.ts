import type { Metric, Normalisation, Result, Scoring } from '../evaluate';
import type { WeightFormat } from '../model/weight-formats';
import type { Source } from './plan';

/** One run of a plan: everything that decides it, so that any machine with the same files can do it. */
export interface Point {
  /** Readable words and a hash of all the rest. */
  id: string;
  model: string;
  weights: WeightFormat;
  setting: string;
  /** What tables call the method. */
  label: string;
  method: string;
  /** Every option of a training method but the seed. */
  options: Record<string, unknown>;
  /** Those that the grid varies. */
  varied: Record<string, unknown>;
  seed: number;
  sources: { train?: Source | undefined; trainValidation?: Source | undefined; validation: Source; test: Source };
  evaluation: {
    scoring: Scoring;
    normalisation: Normalisation;
    shots: number;
    chat: boolean | 'multiturn';
    system?: string | undefined;
    bins: number;
    resamples: number;
  };
}

/** What one set of questions showed. */
export interface Measured {
  n: number;
  task: string;
  split: string;
  metrics: Record<string, Metric>;
  /** The bins behind a reliability diagram. */
  bins: Result['bins'];
}

/** What a point cost, as it was measured. */
export interface Cost {
  /** Of the process, and of the steps that an interrupted one before it had done. */
  wall_seconds: number;
  train_seconds: number;
  evaluate_seconds: number;
  /** Largest resident size of the process. */
  peak_memory_mib: number;
  tokens_trained: number;
  host: string;
  finished: string;
}

/** The result of a point. All but `cost` follows from the point and the code. */
export interface PointRow {
  id: string;
  model: string;
  model_hash: string;
  adapter_hash?: string | undefined;
  setting: string;
  label: string;
  method: string;
  options: Record<string, unknown>;
  varied: Record<string, unknown>;
  seed: number;
  temperature?: { status: string; applied: number } | undefined;
  validation: Measured;
  test: Measured;
  code_version: string;
  engine: string;
  cost: Cost;
}
