import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { blockLayout, dequantise, tensorTypes } from '../../src/model/dequantise';
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
