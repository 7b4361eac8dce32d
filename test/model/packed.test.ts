import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine } from '../../src/engine/backend';
import { grow, pack, type Past, type Sequence } from '../../src/model/packed';
import { maxAbsDifference } from '../shared';
import { allLogits, tinyModel } from './tiny-model';
import { treeOf } from './trees';

/** Trees: each branch leaves somewhere on the path before it. */
const sequences: fc.Arbitrary<Sequence[]> = fc.array(treeOf(fc.integer({ min: 0, max: 22 })), {
  minLength: 1,
  maxLength: 4,
});

/** A cache that holds some real tokens of each row, anywhere in its grid, as padding between steps leaves it. */
const pastOf = (rows: number) =>
  fc.integer({ min: 1, max: 5 }).chain((width) =>
    fc.array(fc.boolean(), { minLength: rows * width, maxLength: rows * width }).map((places): Past => {
      const real = Uint8Array.from(places, Number);
      const lengths = Array.from({ length: rows }, (_, r) =>
        real.subarray(r * width, (r + 1) * width).reduce((a, b) => a + b, 0),
      );
      return { width, lengths, real };
    }),
  );

interface Token {
  row: number;
  id: number;
  /** The tokens before it in its text, and itself, as indices into the batch. */
  path: number[];
}

/** The tokens of a batch in order. */
function tokensOf(batch: readonly Sequence[]): Token[] {
  const tokens: Token[] = [];
  batch.forEach(({ ids, branches = [] }, row) => {
    let path: number[] = [];
    for (const part of [{ after: 0, ids }, ...branches]) {
      path = path.slice(0, part.after);
      for (const id of part.ids) {
        path = [...path, tokens.length];
        tokens.push({ row, id, path });
      }
    }
  });
  return tokens;
}

describe('pack', () => {
  it('keeps every token with its position in the text, and the grid finds each', () => {
    fc.assert(
      fc.property(sequences, (batch) => {
        const packed = pack(batch);
        const tokens = tokensOf(batch);
        expect(packed.n).toBe(tokens.length);
        expect(Array.from(packed.ids)).toEqual(tokens.map((t) => t.id));
        expect(Array.from(packed.positions)).toEqual(tokens.map((t) => t.path.length - 1));
        expect(packed.starts).toEqual(batch.map((_, row) => tokens.findIndex((t) => t.row === row)));
        tokens.forEach(({ row }, t) => {
          expect(packed.sources[packed.slots[t]!]).toBe(t);
          expect(Math.floor(packed.slots[t]! / packed.width)).toBe(row);
        });
      }),
    );
  });

  it('a token sees just what stands before it in its text: the cache, its own path in the tree', () => {
    const batchAndPast = sequences.chain((batch) =>
      fc.option(pastOf(batch.length), { nil: undefined }).map((past) => [batch, past] as const),
    );
    fc.assert(
      fc.property(batchAndPast, ([batch, past]) => {
        const packed = pack(batch, past);
        const tokens = tokensOf(batch);
        const before = past?.width ?? 0;
        const keys = before + packed.width;
        const positions = tokens.map((t) => (past?.lengths[t.row] ?? 0) + t.path.length - 1);
        expect(Array.from(packed.positions)).toEqual(positions);
        const right = new Uint8Array(packed.rows * packed.width * keys).fill(1); // padding sees nothing
        tokens.forEach((query, q) => {
          const line = packed.slots[q]! * keys;
          for (let j = 0; j < before; j++) if (past!.real[query.row * before + j]) right[line + j] = 0;
          for (const k of query.path) right[line + before + (packed.slots[k]! % packed.width)] = 0;
        });
        expect(packed.hidden).toEqual(right);
      }),
    );
  });

  it('refuses nothing, and a sequence without tokens', () => {
    expect(() => pack([])).toThrow('no sequence to pack');
    expect(() => pack([{ ids: [1] }, { ids: [] }])).toThrow('sequence 1 has no tokens');
    const beyond = { ids: [1, 2], branches: [{ after: 3, ids: [4] }] };
    expect(() => pack([beyond])).toThrow('a branch leaves after 3 tokens, 1 more than there are');
  });
});

describe('grow', () => {
  it('adds up lengths and marks the real places, step after step', () => {
    const first = grow(undefined, pack([{ ids: [1, 2, 3] }, { ids: [4] }]));
    expect(first).toEqual({ width: 3, lengths: [3, 1], real: Uint8Array.of(1, 1, 1, 1, 0, 0) });
    const second = grow(first, pack([{ ids: [5] }, { ids: [6] }], first));
    expect(second).toEqual({ width: 4, lengths: [4, 2], real: Uint8Array.of(1, 1, 1, 1, 1, 0, 0, 1) });
  });
});

describe('a packed batch', () => {
  beforeAll(startEngine);

  it('gives each text the logits it has alone, whatever is packed beside it', () => {
    const model = tinyModel();
    const { vocabSize } = model.config;
    fc.assert(
      fc.property(sequences, (batch) => {
        const together = allLogits(model, batch);
        const tokens = tokensOf(batch);
        tokens.forEach(({ path }, t) => {
          const alone = allLogits(model, [{ ids: path.map((k) => tokens[k]!.id) }]);
          const difference = maxAbsDifference(
            together.subarray(t * vocabSize, (t + 1) * vocabSize),
            alone.subarray(-vocabSize),
          );
          // Logits reach ±20 here, so this is some 20 units in the last place.
          expect(difference).toBeLessThan(1e-4);
        });
      }),
      { numRuns: 25 },
    );
  });
});
