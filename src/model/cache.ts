import { tf } from '../engine/backend';
import { pack, type Past } from './packed';
import type { Transformer } from './transformer';
import { forward, type KeyValueCache } from './transformer';
import { sharedBeginning } from './tree';

export function disposeCache(cache: KeyValueCache | undefined): void {
  for (const layer of cache?.layers ?? []) tf.dispose([layer.keys, layer.values]);
}

/** The first `length` tokens of many texts, computed once: keys and values of one row. */
export interface Prefix {
  length: number;
  cache: KeyValueCache;
}

/** Fewer saved tokens than this are not worth a pass of their own. */
const LEAST_SAVED = 256;

/**
 * Computes what all `texts` begin with (a system prompt, a template's header, examples) once and hands it to `use`;
 * undefined where little is shared. Every text keeps at least one token of its own.
 */
export function withSharedPrefix<T>(
  model: Transformer,
  texts: readonly (readonly number[])[],
  use: (prefix: Prefix | undefined) => T,
): T {
  const length = sharedLength(texts);
  if ((texts.length - 1) * length < LEAST_SAVED) return use(undefined);
  const packed = pack([{ ids: texts[0]!.slice(0, length) }]);
  const { hidden, cache } = forward(model.config, model.parameters, packed, Int32Array.of(length - 1), { keep: true });
  hidden.dispose();
  try {
    return use({ length, cache: cache! });
  } finally {
    disposeCache(cache);
  }
}

function sharedLength(texts: readonly (readonly number[])[]): number {
  const [first = [], ...rest] = texts;
  return rest.reduce(
    (length, text) => Math.min(length, text.length - 1, sharedBeginning(first, text)),
    Math.max(0, first.length - 1),
  );
}

/** The prefix as the cache of a batch of `rows`; none without one. */
export function cacheOf(prefix: Prefix | undefined, rows: number): KeyValueCache | undefined {
  if (!prefix) return undefined;
  const { width, real } = prefix.cache.past;
  const past: Past = {
    width,
    lengths: Array.from({ length: rows }, () => prefix.length),
    real: new Uint8Array(rows * width).map((_, i) => real[i % width]!),
  };
  return { layers: prefix.cache.layers, past };
}
