import { tf } from '../engine/backend';
import { disposeCache } from './cache';
import { emptyGrid, type Packed, type Past } from './packed';
import type { KeyValueCache } from './transformer';

/** Seen by every lane of its row: the prompt. */
const EVERYONE = -1;

/**
 * Many continuations of each of many prompts over one key-value cache: a row of the grid is a prompt, and its continuations
 * are lanes, each of which sees the prompt and itself. The prompt's keys stand there once, however many lanes it has, and a
 * lane that has ended costs nothing more.
 */
export interface Lanes {
  cache: KeyValueCache;
  /** Which prompt each row is. */
  prompts: number[];
  /** Tokens of each row's prompt. */
  lengths: number[];
  /** The lane that each place of a row belongs to. */
  owners: Int32Array[];
}

/** The lanes of prompts that have been computed into a cache. */
export function openLanes(cache: KeyValueCache, lengths: readonly number[]): Lanes {
  return {
    cache,
    prompts: lengths.map((_, row) => row),
    lengths: [...lengths],
    owners: lengths.map(() => new Int32Array(cache.past.width).fill(EVERYONE)),
  };
}

/** A lane's next token. */
export interface Step {
  lane: number;
  id: number;
}

/**
 * Packs the next token of every lane that goes on, as `pack` does sequences.
 * @param steps for each row at least one
 * @param done tokens that every lane has had since the prompt
 */
export function packLanes(
  { cache: { past }, lengths, owners }: Lanes,
  steps: readonly (readonly Step[])[],
  done: number,
): Packed {
  const packed = emptyGrid(steps.map(({ length }) => length), past.width); // prettier-ignore
  const { width, ids, positions, slots, sources, hidden, starts } = packed;
  const keys = past.width + width;
  let at = 0;
  steps.forEach((row, r) => {
    starts.push(at);
    row.forEach(({ lane, id }, i) => {
      const slot = r * width + i;
      ids[at] = id;
      positions[at] = lengths[r]! + done;
      slots[at] = slot;
      sources[slot] = at++;
      const line = slot * keys;
      for (let j = 0; j < past.width; j++) {
        const owner = owners[r]![j]!;
        if (past.real[r * past.width + j] === 1 && (owner === EVERYONE || owner === lane)) hidden[line + j] = 0;
      }
      hidden[line + past.width + i] = 0;
    });
  });
  return packed;
}

/** The lanes after a packed step, whose cache is the grown one. */
export function advance(lanes: Lanes, cache: KeyValueCache, steps: readonly (readonly Step[])[]): Lanes {
  const owners = lanes.owners.map((before, r) => {
    const after = new Int32Array(cache.past.width).fill(EVERYONE); // places that are not real are seen by none
    after.set(before);
    steps[r]!.forEach(({ lane }, i) => (after[before.length + i] = lane));
    return after;
  });
  return { ...lanes, cache, owners };
}

/** The rows `kept` of the lanes, in order; the caller's cache is disposed of where rows go. */
export function keepRows(lanes: Lanes, kept: readonly number[]): Lanes {
  if (kept.length === lanes.prompts.length) return lanes;
  const { layers, past } = lanes.cache;
  const index = tf.tensor1d([...kept], 'int32');
  const cache: KeyValueCache = {
    layers: layers.map(({ keys, values }) => ({ keys: tf.gather(keys, index), values: tf.gather(values, index) })),
    past: pastOf(past, kept),
  };
  index.dispose();
  disposeCache(lanes.cache);
  const pick = <T>(all: readonly T[]) => kept.map((row) => all[row]!);
  return { cache, prompts: pick(lanes.prompts), lengths: pick(lanes.lengths), owners: pick(lanes.owners) };
}

function pastOf({ width, lengths, real }: Past, kept: readonly number[]): Past {
  const rows = new Uint8Array(kept.length * width);
  kept.forEach((row, i) => rows.set(real.subarray(row * width, (row + 1) * width), i * width));
  return { width, lengths: kept.map((row) => lengths[row]!), real: rows };
}
