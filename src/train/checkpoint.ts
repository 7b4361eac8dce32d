import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { makeFolder } from '../base/files';
import { tf } from '../engine/backend';
import { leaves, map, type Tree } from '../engine/tree';
import { openSafetensors, writeSafetensors } from '../model/safetensors';

/** Raised when what a checkpoint holds changes. */
const VERSION = '1';
/** Older ones are removed: the last, and the one before in case the last is damaged. */
const KEPT = 2;

/** Everything that a run has become: randomness and data follow from the seed and the step. */
export interface Checkpoint {
  /** Steps done. */
  step: number;
  state: Tree;
}

const fileOf = (folder: string, step: number) => path.join(folder, `step-${String(step).padStart(6, '0')}.safetensors`);

function stepsIn(folder: string): number[] {
  if (!fs.existsSync(folder)) return [];
  const steps = fs.readdirSync(folder).map((name) => /^step-(\d+)\.safetensors$/.exec(name)?.[1]);
  return steps.flatMap((step) => (step === undefined ? [] : [Number(step)])).sort((a, b) => b - a);
}

/**
 * Writes a checkpoint, whole or not at all, then removes all but the last two.
 * @param run what tells this run from another: a checkpoint of another is refused
 * @throws CalmError when it cannot be written; earlier ones are then untouched
 */
export function writeCheckpoint(folder: string, { step, state }: Checkpoint, run: string): string {
  makeFolder(folder);
  const file = fileOf(folder, step);
  const tensors = Object.fromEntries(
    leaves(state).map(([place, leaf]) => [place, { shape: leaf.shape, data: leaf.dataSync<'float32'>() }]),
  );
  writeSafetensors(file, tensors, { version: VERSION, step: String(step), run });
  for (const old of stepsIn(folder).slice(KEPT)) fs.rmSync(fileOf(folder, old), { force: true });
  return file;
}

/**
 * Reads the newest checkpoint that is whole; the caller disposes of its state.
 * @param like a state of the same shape
 * @param warn is told of one that is damaged and passed over
 * @returns undefined when there is none
 * @throws CalmError for one of another version, run or shape
 */
export function readCheckpoint(
  folder: string,
  like: Tree,
  run: string,
  warn: (text: string) => void,
): Checkpoint | undefined {
  const damaged: CalmError[] = [];
  for (const step of stepsIn(folder)) {
    const file = fileOf(folder, step);
    let opened: ReturnType<typeof openSafetensors>;
    try {
      opened = openSafetensors(file);
    } catch (error) {
      damaged.push(error as CalmError);
      warn(`${(error as CalmError).message}; going back to the checkpoint before`);
      continue;
    }
    try {
      const { metadata } = opened;
      if (metadata.get('version') !== VERSION) {
        throw new CalmError(
          `${file} is a checkpoint of version ${metadata.get('version') ?? 'unknown'}, not ${VERSION}`,
          {
            remedy: 'resume with the version that wrote it, or start a new run',
          },
        );
      }
      if (metadata.get('run') !== run) {
        throw new CalmError(`${file} belongs to a run with other options, data or model`, {
          remedy: 'resume with those it was started with, or choose another --out',
        });
      }
      const names = new Set(opened.names());
      const state = tf.tidy(
        () =>
          map(like, (leaf, place) => {
            if (!names.delete(place) || opened.shape(place).join() !== leaf.shape.join()) {
              throw new CalmError(`${file} does not hold ${place} as [${leaf.shape.join(', ')}]`);
            }
            return tf.tensor(opened.float32(place), leaf.shape);
          }) as never,
      ) as Tree;
      return { step, state };
    } finally {
      opened.close();
    }
  }
  if (damaged[0]) throw new CalmError(`no checkpoint in ${folder} is whole`, { remedy: 'start a new run' });
  return undefined;
}
