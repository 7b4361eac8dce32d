import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockLayout, dequantise, tensorTypes, unpermuteRows } from '../../src/model/dequantise';
import { openGguf } from '../../src/model/gguf';
import { openSafetensors } from '../../src/model/safetensors';
import { calmError, float32Bytes, uint16Bytes } from './make-files';

const tiny = path.join(__dirname, '../../../shared/oracle/tiny/public');

/** Bits, so that -0 and 0 differ. */
const bits = (values: Float32Array) => Array.from(new Uint32Array(values.buffer, values.byteOffset, values.length));

const fixture = JSON.parse(fs.readFileSync(path.join(__dirname, '../fixtures/quant-blocks.json'), 'utf8')) as Record<
  string,
  { blocks: string; weights: string }
>;

describe('dequantise', () => {
  it.each(tensorTypes.filter((type) => type !== 'F32'))('%s equals gguf-py to the bit (fixtures)', (type) => {
    const { blocks, weights } = fixture[type] as { blocks: string; weights: string };
    const raw = new Uint8Array(Buffer.from(blocks, 'base64'));
    const right = new Float32Array(new Uint8Array(Buffer.from(weights, 'base64')).buffer);
    const { block, bytes } = blockLayout(type);
    expect(right.length).toBe((raw.length / bytes) * block);
    expect(bits(dequantise(type, raw, right.length))).toEqual(bits(right));
  });

  it('decodes every float16 by its definition', () => {
    const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const values = dequantise('F16', new Uint8Array(all.buffer), 65536);
    const right = Float32Array.from(all, (h) => {
      const sign = h >> 15 ? -1 : 1;
      const exponent = (h >> 10) & 31;
      const fraction = (h & 1023) / 1024;
      if (exponent === 31) return fraction ? NaN : sign * Infinity;
      return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
    });
    expect(values).toEqual(right); // NaN equals NaN, 0 does not equal -0
  });

  it('T-13: decodes bfloat16', () => {
    const values = dequantise('BF16', uint16Bytes(0x3f80, 0xc049, 0x7fc0, 0x0001), 4);
    expect(Array.from(values.subarray(0, 3))).toEqual([1, -3.140625, NaN]);
    expect(values[3]).toBeCloseTo(9.1835e-41, 44);
    expect(bits(values)[3]).toBe(0x00010000);
  });

  it('takes F32 as it is, aligned or not', () => {
    const bytes = float32Bytes(1.5, -0, 3e-42);
    const shifted = new Uint8Array(13);
    shifted.set(bytes, 1);
    expect(bits(dequantise('F32', bytes, 3))).toEqual([0x3fc00000, 0x80000000, 2141]);
    expect(bits(dequantise('F32', shifted.subarray(1), 3))).toEqual([0x3fc00000, 0x80000000, 2141]);
  });

  it('decodes blocks worked out by hand', () => {
    // Q4_0, d = 2: the low nibble of byte j is weight j, the high one weight 16 + j.
    const q40 = Uint8Array.of(0x00, 0x40, 0xf0, ...Array<number>(15).fill(0x88));
    const w40 = dequantise('Q4_0', q40, 32);
    expect([w40[0], w40[16], w40[1], w40[17]]).toEqual([-16, 14, 0, 0]);
    // Q4_1, d = 0.5, m = -1.
    const q41 = Uint8Array.of(0x00, 0x38, 0x00, 0xbc, 0x3f, ...Array<number>(15).fill(0));
    const w41 = dequantise('Q4_1', q41, 32);
    expect([w41[0], w41[16], w41[1], w41[31]]).toEqual([6.5, 0.5, -1, -1]);
    // Q5_0, d = 1: bit j of the 32 high bits belongs to weight j.
    const q50 = Uint8Array.of(0x00, 0x3c, 0x01, 0x00, 0x00, 0x80, 0x21, ...Array<number>(15).fill(0));
    const w50 = dequantise('Q5_0', q50, 32);
    expect([w50[0], w50[16], w50[1], w50[31]]).toEqual([1, -14, -16, 0]);
    // Q8_0, d = 0.25.
    const q80 = Uint8Array.of(0x00, 0x34, 0x80, 0x7f, ...Array<number>(30).fill(1));
    expect(Array.from(dequantise('Q8_0', q80, 32).subarray(0, 3))).toEqual([-32, 31.75, 0.25]);
  });

  it('keeps the NaN and infinity of a broken scale visible', () => {
    const block = (low: number, high: number) => Uint8Array.of(low, high, 0, ...Array<number>(31).fill(1));
    expect(Array.from(dequantise('Q8_0', block(0x00, 0x7c), 32).subarray(0, 2))).toEqual([NaN, Infinity]);
    expect(dequantise('Q8_0', block(0x01, 0x7e), 32).every(Number.isNaN)).toBe(true);
  });

  it('refuses bytes that are not the weights', () => {
    for (const type of tensorTypes) {
      const { block, bytes } = blockLayout(type);
      expect(calmError(() => dequantise(type, new Uint8Array(bytes - 1), block)).message).toContain(type);
      expect(calmError(() => dequantise(type, new Uint8Array(bytes * 2), block)).message).toContain(type);
    }
    expect(calmError(() => dequantise('Q4_0', new Uint8Array(18), 31)).message).toContain('31 weights');
  });
});

describe('unpermuteRows', () => {
  /** What llama.cpp's converter does: reshape [heads, 2, half, row], swap axes 1 and 2. */
  function permute(rows: Float32Array, heads: number, rowLength: number): Float32Array {
    const half = rows.length / rowLength / heads / 2;
    const out: number[] = [];
    for (let h = 0; h < heads; h++)
      for (let j = 0; j < half; j++)
        for (let s = 0; s < 2; s++)
          for (let c = 0; c < rowLength; c++) out.push(rows[((h * 2 + s) * half + j) * rowLength + c] as number);
    return Float32Array.from(out);
  }

  it('gives back the order 0 … 7 of one head of size 8, and of raw bytes', () => {
    // numpy: arange(8).reshape(1, 2, 4).swapaxes(1, 2).ravel()
    const file = [0, 4, 1, 5, 2, 6, 3, 7];
    expect(Array.from(unpermuteRows(Float32Array.from(file), 1, 1))).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const bytes = Uint8Array.from(file.flatMap((r) => [r, 10 * r]));
    const right = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((r) => [r, 10 * r]);
    expect(Array.from(unpermuteRows(bytes, 1, 2))).toEqual(right);
  });

  it('undoes the permutation for any heads, size and row length', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 5 }),
        (h, half, row) => {
          const rows = Float32Array.from({ length: h * 2 * half * row }, (_, i) => i);
          expect(unpermuteRows(permute(rows, h, row), h, row)).toEqual(rows);
        },
      ),
    );
  });

  // T-10: with 8 query and 2 key-value heads, using the wrong head count for k gives fluent nonsense.
  it('T-10: rotary scores at position 9 agree between both layouts, only with the right head counts', () => {
    const heads = 8;
    const kvHeads = 2;
    const size = 8;
    const make = (n: number, seed: number) =>
      Float32Array.from({ length: n * size }, (_, i) => Math.sin(seed + 1.7 * i));
    const q = make(heads, 1);
    const k = make(kvHeads, 2);
    const angle = (position: number, pair: number) => position * 100 ** ((-2 * pair) / size);
    const rotate = (x: Float32Array, position: number, first: (j: number) => number, second: (j: number) => number) => {
      const out = new Float32Array(size);
      for (let j = 0; j < size / 2; j++) {
        const [a, b, t] = [x[first(j)] as number, x[second(j)] as number, angle(position, j)];
        out[first(j)] = a * Math.cos(t) - b * Math.sin(t);
        out[second(j)] = a * Math.sin(t) + b * Math.cos(t);
      }
      return out;
    };
    const halves = (x: Float32Array, position: number) =>
      rotate(
        x,
        position,
        (j) => j,
        (j) => j + size / 2,
      );
    const pairs = (x: Float32Array, position: number) =>
      rotate(
        x,
        position,
        (j) => 2 * j,
        (j) => 2 * j + 1,
      );
    const scores = (qs: Float32Array, ks: Float32Array, rope: typeof halves) =>
      Array.from({ length: heads }, (_, h) => {
        const group = Math.floor(h / (heads / kvHeads));
        const a = rope(qs.subarray(h * size, (h + 1) * size), 9);
        const b = rope(ks.subarray(group * size, (group + 1) * size), 2);
        return a.reduce((sum, v, i) => sum + v * (b[i] as number), 0);
      });
    const inFile = { q: permute(q, heads, 1), k: permute(k, kvHeads, 1) };
    const right = scores(q, k, halves);
    const close = (a: number[]) => Math.max(...a.map((v, i) => Math.abs(v - (right[i] as number))));
    expect(close(scores(inFile.q, inFile.k, pairs))).toBeLessThan(1e-5);
    expect(close(scores(unpermuteRows(inFile.q, heads, 1), unpermuteRows(inFile.k, kvHeads, 1), halves))).toBeLessThan(
      1e-5,
    );
    expect(close(scores(unpermuteRows(inFile.q, heads, 1), unpermuteRows(inFile.k, 1, 1), halves))).toBeGreaterThan(
      0.1,
    );
    expect(close(scores(inFile.q, inFile.k, halves))).toBeGreaterThan(0.1);
  });

  it('refuses heads that do not divide the rows', () => {
    expect(calmError(() => unpermuteRows(new Float32Array(24), 5, 1)).message).toContain('5 heads');
    expect(calmError(() => unpermuteRows(new Float32Array(9), 3, 1)).message).toContain('3 heads');
  });
});

describe.skipIf(!fs.existsSync(tiny))('dequantise against shared/oracle/tiny', () => {
  it.each(['quant_zoo/zoo.gguf', 'tiny_llama_gguf_mixA/model.gguf'])('every tensor of %s, to the bit', (file) => {
    const gguf = openGguf(path.join(tiny, file));
    const ref = openSafetensors(path.join(tiny, path.dirname(file), 'ref.safetensors'));
    let compared = 0;
    for (const name of gguf.names()) {
      expect(gguf.shape(name)).toEqual(ref.shape(name));
      expect(bits(gguf.float32(name)), name).toEqual(bits(ref.float32(name)));
      compared++;
    }
    expect(compared).toBe([...ref.names()].filter((name) => !name.includes('logits')).length);
    gguf.close();
    ref.close();
  });
});
