import * as fs from 'node:fs';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { CalmError } from '../base/errors';
import { fileError } from '../base/files';
import { tf, type Tensor } from '../engine/backend';
import { dispose, leaves, type Tree } from '../engine/tree';
import { fuse, readAdapter, unembeddingOf, writeAdapter, type Adapter, type ModelConfig } from '../model';
import { openSafetensors, writeSafetensors } from '../model/safetensors';
import type { LanguageModel } from '../pretrained';
import { foldHead, type Head } from './head';

const HEAD_FILE = 'calibration_head.safetensors';

/** A model with an adapter and, where there is one, a calibration head applied. */
export interface TunedModel extends LanguageModel {
  adapter: Adapter;
  head?: Head | undefined;
  /** The hash is SHA-256 over the adapter's and the head's numbers. */
  tuning: { adapterHash: string; head: boolean };
}

/**
 * The model with an adapter merged into its weights and a head folded into its output projection: it runs as fast as
 * the model itself. The new model owns the adapter and the head; `dispose` frees them and what was merged, not `model`.
 */
export function applyTuning(model: LanguageModel, adapter: Adapter, head?: Head): TunedModel {
  const fused = fuse(model, adapter);
  const folded = head && foldHead(unembeddingOf(model.parameters), head);
  const parameters = { ...fused, ...folded };
  const shared = new Set<Tensor>(leaves(model.parameters).map(([, leaf]) => leaf));
  return {
    ...model,
    parameters,
    adapter,
    head,
    tuning: { adapterHash: hashOf([adapter.blocks, head]), head: head !== undefined },
    dispose: () => {
      tf.dispose(leaves(parameters as Tree).flatMap(([, leaf]) => (shared.has(leaf) ? [] : [leaf])));
      dispose([adapter.blocks, head]);
    },
  };
}

function hashOf(tree: Tree): string {
  const hash = createHash('sha256');
  for (const [place, leaf] of leaves(tree)) {
    const { buffer, byteOffset, byteLength } = leaf.dataSync();
    hash.update(place).update(new Uint8Array(buffer, byteOffset, byteLength));
  }
  return hash.digest('hex');
}

/** Writes an adapter in PEFT's format and, beside it, the head. @throws CalmError when the folder cannot be written */
export function writeTuning(
  folder: string,
  adapter: Adapter,
  head: Head | undefined,
  config: ModelConfig,
  base: string,
) {
  writeAdapter(folder, adapter, config, base);
  const file = path.join(folder, HEAD_FILE);
  if (head) writeHead(file, head);
  else fs.rmSync(file, { force: true }); // of an earlier run
}

/** @throws CalmError when it cannot be written */
export function writeHead(file: string, { d, l }: Head): void {
  const tensor = (t: Tensor) => ({ shape: t.shape, data: t.dataSync<'float32'>() });
  writeSafetensors(file, { d: tensor(d), l: tensor(l) });
}

/**
 * Reads a calibration head; the caller disposes of it.
 * @throws CalmError for one of another vocabulary, or one whose d is not positive
 */
export function readHead(file: string, vocabSize: number): Head {
  const opened = openSafetensors(file);
  try {
    const read = (name: 'd' | 'l') => {
      const shape = opened.shape(name);
      if (shape.length !== 1 || (shape[0] !== vocabSize && shape[0] !== 1)) {
        throw new CalmError(`${file}: ${name} is [${shape.join(', ')}], the model's vocabulary is ${vocabSize}`, {
          remedy: 'use the model that the head was trained on',
        });
      }
      return opened.float32(name);
    };
    const [d, l] = [read('d'), read('l')];
    if (d.length !== l.length) throw new CalmError(`${file}: d has ${d.length} numbers, l has ${l.length}`);
    const wrong = d.findIndex((value, i) => !(value > 0 && Number.isFinite(value) && Number.isFinite(l[i])));
    if (wrong >= 0) throw new CalmError(`${file}: entry ${wrong} is d = ${d[wrong]}, l = ${l[wrong]}; d is positive`);
    return { d: tf.tensor1d(d), l: tf.tensor1d(l) };
  } finally {
    opened.close();
  }
}

/**
 * Loads an adapter folder (PEFT's format, with `calibration_head.safetensors` where there is one) onto a model.
 * @param options.head whether the head is applied; by default where there is one
 * @throws CalmError as `readAdapter` and `readHead`, or when `head` is asked for and there is none
 */
export function loadTuning(model: LanguageModel, folder: string, options: { head?: boolean } = {}): TunedModel {
  const file = path.join(folder, HEAD_FILE);
  if (!fs.existsSync(folder)) throw fileError(Object.assign(new Error(), { code: 'ENOENT' }), folder, 'read');
  const there = fs.existsSync(file);
  if (options.head === true && !there) {
    throw new CalmError(`${folder} has no ${HEAD_FILE}`, { remedy: 'evaluate without the head' });
  }
  const head = there && options.head !== false ? readHead(file, model.config.vocabSize) : undefined;
  try {
    return applyTuning(model, readAdapter(folder, model.config), head);
  } catch (error) {
    dispose(head);
    throw error;
  }
}
