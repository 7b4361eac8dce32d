import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { openGguf } from '../model/gguf';
import { openCheckpoint } from '../model/safetensors';
import { presetFile, PRESETS } from '../base/presets';
import { isTrained } from './methods';
import { plainFile } from './points';
import type { Source } from './plan';
import type { Point, PointRow } from './types';

/** What a point will cost, and whether that is what others like it have cost or is only reckoned. */
export interface Estimate {
  seconds: number;
  memory_mib: number;
  measured: boolean;
}

/** Floating-point operations a second and core that models of this size reach here in float32, as measured on two cores. */
const SPEED_PER_CORE = 60e9;
/** Node and TensorFlow with nothing loaded, in MiB. */
const ENGINE_MIB = 500;
/** English text, where a file's tokens are not counted. */
const BYTES_PER_TOKEN = 4.5;
/** Questions whose file is not looked into, and their tokens each. */
const UNKNOWN = { questions: 1000, tokens: 100 };

/**
 * Estimates points: by the mean of the rows of the same model, setting and method where there are any;
 * else reckoned from parameters and tokens, which may be wrong by a factor of a few.
 */
export function estimator(rows: readonly PointRow[]): (point: Point) => Estimate {
  return (point) => {
    const name = path.basename(point.model).replace(/\.gguf$/i, '');
    const alike = rows.filter(
      ({ setting, method, model }) => setting === point.setting && method === point.method && model === name,
    );
    if (alike.length > 0) {
      return {
        seconds: alike.reduce((sum, { cost }) => sum + cost.wall_seconds, 0) / alike.length,
        memory_mib: Math.max(...alike.map(({ cost }) => cost.peak_memory_mib)),
        measured: true,
      };
    }
    return reckon(point, countParameters(point.model));
  };
}

function reckon({ method, options, sources, evaluation }: Point, parameters: number): Estimate {
  const { validation, test, train } = sources;
  // A forward pass is two operations a parameter and token; cloze and examples read more than the question.
  const reading = evaluation.scoring === 'letter' ? 1 : 1.5;
  const [validated, tested] = [sizeOf(validation), sizeOf(test)];
  const asked = validated.rows * validated.tokens + tested.rows * tested.tokens;
  let operations = 2 * parameters * asked * reading * (1 + evaluation.shots);
  if (isTrained(method) && train) {
    const { rows, tokens } = sizeOf(train);
    // Backward costs as much as forward again, and the adapter's gradients some more.
    operations += 5 * parameters * examplesOf(options, rows) * tokens;
  }
  const weights = (4 * parameters) / 2 ** 20;
  return {
    seconds: 5 + operations / (SPEED_PER_CORE * os.cpus().length),
    memory_mib: ENGINE_MIB + weights * (isTrained(method) ? 3 : 1.5),
    measured: false,
  };
}

/** Examples that a method computes forwards and backwards in all. */
function examplesOf(options: Point['options'], rows: number): number {
  const number = (name: string, otherwise: number) => (typeof options[name] === 'number' ? options[name] : otherwise);
  const [batch, epochs] = [number('batch', 1), number('epochs', 1)];
  const used = Math.min(rows, number('limit', rows));
  // Iterate: so many steps of the adapter an epoch, then one of the head.
  if ('lowerSteps' in options) return epochs * batch * (number('lowerSteps', 0) + 1);
  if (!('innerSteps' in options)) return epochs * used;
  // CALM: T inner steps an outer iteration, and two batches for its directions.
  const inner = number('innerSteps', 0);
  return epochs * number('outerPerEpoch', Math.ceil(used / batch / Math.max(1, inner))) * batch * (inner + 2);
}

/** Rows of a source, and tokens of each. */
function sizeOf(source: Source): { rows: number; tokens: number } {
  const file = plainFile(source);
  if (file !== undefined) {
    const text = fs.readFileSync(file, 'latin1');
    const rows = Math.max(1, text.trimEnd().split('\n').length);
    return { rows, tokens: text.length / rows / BYTES_PER_TOKEN };
  }
  const { limit = UNKNOWN.questions } = source;
  return { rows: limit < 1 ? limit * UNKNOWN.questions : limit, tokens: UNKNOWN.tokens };
}

const counts = new Map<string, number>();

function countParameters(model: string): number {
  const known = counts.get(model);
  if (known !== undefined) return known;
  const where = Object.hasOwn(PRESETS, model) ? presetFile(model) : model;
  const checkpoint = fs.statSync(where).isDirectory() ? openCheckpoint(where) : openGguf(where);
  try {
    let count = 0;
    for (const name of checkpoint.names()) count += checkpoint.shape(name).reduce((a, b) => a * b, 1);
    counts.set(model, count);
    return count;
  } finally {
    checkpoint.close();
  }
}
