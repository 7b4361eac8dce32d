/** The high words of doubles are sorted by, this many bits a pass. */
const BITS = 11;
const MASK = (1 << BITS) - 1;
/** Up to this many numbers the built-in sort is as fast. */
const FEW = 500;
/** Up to this many numbers insertion is faster. */
const SHORT = 16;

/**
 * Sorts numbers that are at least 0, ascending and in place: by the high words of their bits, which are ordered as they
 * are (radix sort, least significant digit first), and then each run of equal high words. Several times as fast as the
 * built-in sort, which is most of the time of isotonic regression.
 */
export function sortScores(values: Float64Array): void {
  const n = values.length;
  for (let i = 0; i < n; i++) values[i]! += 0; // -0 becomes 0
  if (n <= FEW) {
    values.sort();
    return;
  }
  let [from, to]: [Float64Array, Float64Array] = [values, new Float64Array(n)];
  const counts = new Uint32Array(MASK + 1);
  for (let shift = 0; shift < 32; shift += BITS) {
    const words = new Uint32Array(from.buffer, from.byteOffset, 2 * n);
    counts.fill(0);
    for (let i = 1; i < 2 * n; i += 2) counts[(words[i]! >>> shift) & MASK]!++;
    for (let k = 0, sum = 0; k <= MASK; k++) {
      const count = counts[k]!;
      counts[k] = sum;
      sum += count;
    }
    for (let i = 0; i < n; i++) {
      const digit = (words[2 * i + 1]! >>> shift) & MASK;
      to[counts[digit]!] = from[i]!;
      counts[digit]!++;
    }
    [from, to] = [to, from];
  }
  values.set(from);
  const words = new Uint32Array(values.buffer, values.byteOffset, 2 * n);
  for (let start = 0, end = 1; start < n; start = end++) {
    while (end < n && words[2 * end + 1] === words[2 * start + 1]) end++;
    if (end - start > SHORT) values.subarray(start, end).sort();
    else if (end - start > 1) insertionSort(values, start, end);
  }
}

function insertionSort(values: Float64Array, start: number, end: number): void {
  for (let i = start + 1; i < end; i++) {
    const value = values[i]!;
    let at = i;
    for (; at > start && values[at - 1]! > value; at--) values[at] = values[at - 1]!;
    values[at] = value;
  }
}
