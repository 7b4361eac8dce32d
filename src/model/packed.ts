/**
 * A token sequence, or a tree of them, depth first: each branch leaves the path before it after that path's first
 * `after` tokens, and sees these and itself.
 */
export interface Sequence {
  ids: readonly number[];
  branches?: readonly { after: number; ids: readonly number[] }[];
}

/**
 * Sequences packed without padding: the linear layers see the `n` real tokens only. For attention the tokens of
 * sequence r are laid out as row r of a [rows, width] grid, whose `hidden` says who sees whom.
 */
export interface Packed {
  /** Real tokens in the batch. */
  n: number;
  ids: Int32Array; // [n]
  /** Position in the text: a branch continues where it left. */
  positions: Int32Array; // [n]
  rows: number;
  width: number;
  /** Where in the flattened grid each token stands. */
  slots: Int32Array; // [n]
  /** Which token fills each place of the grid; padding repeats token 0, which is hidden. */
  sources: Int32Array; // [rows * width]
  /** 1 where the query (second axis) does not see the key (third axis), else 0; a byte each, for long texts. */
  hidden: Uint8Array; // [rows, width, past + width]
  /** Index of the first token of each sequence. */
  starts: number[];
}

/** What a key-value cache already holds for each row of the batch. */
export interface Past {
  width: number;
  /** Real tokens of each row. */
  lengths: readonly number[];
  /** 1 where a place of the grid holds a real token, [rows, width]. */
  real: Uint8Array;
}

/**
 * Packs sequences; with `past` they continue the rows of a cache.
 * @throws RangeError when there is no sequence, or one has no tokens before its branches
 */
export function pack(sequences: readonly Sequence[], past?: Past): Packed {
  if (sequences.length === 0) throw new RangeError('there is no sequence to pack');
  const empty = sequences.findIndex((s) => s.ids.length === 0);
  if (empty >= 0) throw new RangeError(`sequence ${empty} has no tokens, so there is nothing to condition on`);
  const lengths = sequences.map((s) => s.ids.length + (s.branches ?? []).reduce((sum, b) => sum + b.ids.length, 0));
  const pastWidth = past?.width ?? 0;
  const packed = emptyGrid(lengths, pastWidth);
  const { width, ids, positions, slots, sources, hidden, starts } = packed;
  const keys = pastWidth + width;
  let at = 0;
  sequences.forEach((sequence, row) => {
    starts.push(at);
    const before = past?.lengths[row] ?? 0;
    let path: { from: number; length: number }[] = []; // runs of places of the row: what the next token sees
    let offset = 0;
    const place = (tokens: readonly number[], after: number) => {
      path = firstOf(path, after);
      const run = { from: offset, length: 0 };
      path.push(run);
      tokens.forEach((id, i) => {
        const slot = row * width + offset;
        ids[at] = id;
        positions[at] = before + after + i;
        slots[at] = slot;
        sources[slot] = at;
        run.length++;
        const line = slot * keys;
        for (let j = 0; j < pastWidth; j++) if (past?.real[row * pastWidth + j] === 1) hidden[line + j] = 0;
        for (const { from, length } of path) hidden.fill(0, line + pastWidth + from, line + pastWidth + from + length);
        at++;
        offset++;
      });
    };
    place(sequence.ids, 0);
    for (const branch of sequence.branches ?? []) place(branch.ids, branch.after);
  });
  return packed;
}

/** A batch whose tokens are to be filled in: so many in each row, nobody seeing anybody, after `pastWidth` places of a cache. */
export function emptyGrid(lengths: readonly number[], pastWidth: number): Packed {
  const n = lengths.reduce((a, b) => a + b, 0);
  const rows = lengths.length;
  const width = Math.max(...lengths);
  return {
    n,
    ids: new Int32Array(n),
    positions: new Int32Array(n),
    rows,
    width,
    slots: new Int32Array(n),
    sources: new Int32Array(rows * width),
    hidden: new Uint8Array(rows * width * (pastWidth + width)).fill(1),
    starts: [],
  };
}

/** The first `count` places of a path of runs. */
function firstOf(path: readonly { from: number; length: number }[], count: number) {
  const kept: { from: number; length: number }[] = [];
  let left = count;
  for (const { from, length } of path) {
    if (left > 0) kept.push({ from, length: Math.min(length, left) });
    left -= length;
  }
  if (left > 0) throw new RangeError(`a branch leaves after ${count} tokens, ${left} more than there are`);
  return kept;
}

/** The cache's grid once a packed batch has been appended to it. */
export function grow(past: Past | undefined, packed: Packed): Past {
  const before = past?.width ?? 0;
  const width = before + packed.width;
  const real = new Uint8Array(packed.rows * width);
  for (let row = 0; row < packed.rows; row++) {
    if (past) real.set(past.real.subarray(row * before, (row + 1) * before), row * width);
  }
  const lengths = packed.starts.map((start, row) => {
    const length = (packed.starts[row + 1] ?? packed.n) - start;
    real.fill(1, row * width + before, row * width + before + length);
    return (past?.lengths[row] ?? 0) + length;
  });
  return { width, lengths, real };
}
