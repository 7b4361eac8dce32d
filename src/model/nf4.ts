/**
 * 4-bit NormalFloat with double quantisation (Dettmers et al. 2023, QLoRA), as bitsandbytes stores it: blocks of 64
 * weights, each weight the nearest of 16 quantiles of a normal distribution times the block's largest magnitude; those
 * magnitudes, less their mean, are themselves stored as 8-bit dynamic numbers in blocks of 256.
 */
export interface Nf4 {
  /** Two weights a byte, the first in the high half. */
  codes: Uint8Array; // [ceil(elements / 2)]
  magnitudes: Uint8Array; // [ceil(elements / 64)]
  /** Largest |magnitude - mean| of each block of 256. */
  scales: Float32Array;
  mean: number;
  elements: number;
}

const BLOCK = 64;
const MAGNITUDE_BLOCK = 256;

// prettier-ignore
const LEVELS = Float32Array.of(
  -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
  -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
  0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
);

/** The 8-bit dynamic numbers in [-1, 1] (Dettmers 2016): a decade for each of 7 exponents, finer in the larger ones. */
const DYNAMIC = (() => {
  const values = [0, 1];
  for (let exponent = 0; exponent < 7; exponent++) {
    const count = 2 ** exponent;
    for (let i = 0; i < count; i++) {
      const middle = 0.1 + (0.9 * (i + 0.5)) / count;
      values.push(10 ** (exponent - 6) * middle, -(10 ** (exponent - 6)) * middle);
    }
  }
  return Float32Array.from(values).sort();
})();

/** The index of the nearest of sorted `levels`. */
function nearest(levels: Float32Array, x: number): number {
  let [low, high] = [0, levels.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (levels[middle]! <= x) low = middle;
    else high = middle;
  }
  return x - levels[low]! <= levels[high]! - x ? low : high;
}

/** Quantises weights, row-major. A block of zeros stays zeros. */
export function quantiseNf4(weights: Float32Array): Nf4 {
  const blocks = Math.ceil(weights.length / BLOCK);
  const largest = Float32Array.from({ length: blocks }, (_, b) => {
    let most = 0;
    for (let i = b * BLOCK; i < Math.min(weights.length, (b + 1) * BLOCK); i++)
      most = Math.max(most, Math.abs(weights[i]!));
    return most;
  });
  const codes = new Uint8Array(Math.ceil(weights.length / 2));
  for (let i = 0; i < weights.length; i++) {
    const magnitude = largest[Math.floor(i / BLOCK)]!;
    const code = nearest(LEVELS, magnitude > 0 ? Math.fround(weights[i]! / magnitude) : 0);
    codes[i >> 1]! |= i % 2 === 0 ? code << 4 : code;
  }
  const mean = Math.fround(largest.reduce((sum, x) => sum + x, 0) / blocks);
  const off = largest.map((x) => x - mean);
  const scales = Float32Array.from({ length: Math.ceil(blocks / MAGNITUDE_BLOCK) }, (_, b) =>
    off.subarray(b * MAGNITUDE_BLOCK, (b + 1) * MAGNITUDE_BLOCK).reduce((most, x) => Math.max(most, Math.abs(x)), 0),
  );
  const magnitudes = Uint8Array.from(off, (x, b) => {
    const scale = scales[Math.floor(b / MAGNITUDE_BLOCK)]!;
    return nearest(DYNAMIC, scale > 0 ? Math.fround(x / scale) : 0);
  });
  return { codes, magnitudes, scales, mean, elements: weights.length };
}

/** The weights again, float32. */
export function dequantiseNf4({ codes, magnitudes, scales, mean, elements }: Nf4): Float32Array {
  const out = new Float32Array(elements);
  for (let b = 0; b < magnitudes.length; b++) {
    const scale = scales[Math.floor(b / MAGNITUDE_BLOCK)]!;
    const magnitude = Math.fround(Math.fround(DYNAMIC[magnitudes[b]!]! * scale) + mean);
    const end = Math.min(elements, (b + 1) * BLOCK);
    for (let i = b * BLOCK; i < end; i++) {
      const pair = codes[i >> 1]!;
      out[i] = LEVELS[i % 2 === 0 ? pair >> 4 : pair & 15]! * magnitude;
    }
  }
  return out;
}
