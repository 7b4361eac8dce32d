import { CalmError } from '../base/errors';

/**
 * Storage types of tensors, as ggml names them, with the number of weights in a block and the bytes it takes.
 * The layouts are those of `ggml-common.h` (llama.cpp).
 */
const LAYOUTS = {
  F32: { block: 1, bytes: 4 },
  F16: { block: 1, bytes: 2 },
  BF16: { block: 1, bytes: 2 },
  Q4_0: { block: 32, bytes: 18 },
  Q4_1: { block: 32, bytes: 20 },
  Q5_0: { block: 32, bytes: 22 },
  Q5_1: { block: 32, bytes: 24 },
  Q8_0: { block: 32, bytes: 34 },
  Q4_K: { block: 256, bytes: 144 },
  Q5_K: { block: 256, bytes: 176 },
  Q6_K: { block: 256, bytes: 210 },
} as const;

export type TensorType = keyof typeof LAYOUTS;

export const tensorTypes = Object.keys(LAYOUTS) as TensorType[];

/** Weights in one block of a storage type, and the bytes that block takes. Rows of a tensor hold whole blocks. */
export function blockLayout(type: TensorType): { block: number; bytes: number } {
  return LAYOUTS[type];
}

/**
 * Turns `elements` stored weights into float32, to the bit as ggml's reference code does. F32 bytes are not copied
 * where they are aligned: the result then shares their memory.
 *
 * Every product below is of a float16 (11 significant bits) and small integers, so it is exact in a double, and so is
 * the one sum; writing it into a Float32Array is the only rounding, as in float32 arithmetic.
 * @throws CalmError when `bytes` does not hold exactly `elements` weights in whole blocks.
 */
export function dequantise(type: TensorType, bytes: Uint8Array, elements: number): Float32Array {
  const { block, bytes: blockBytes } = LAYOUTS[type];
  if (elements % block !== 0 || bytes.length !== (elements / block) * blockBytes) {
    throw new CalmError(`${elements} weights of type ${type} do not fill ${bytes.length} bytes`);
  }
  if (type === 'F32' && bytes.byteOffset % 4 === 0) return new Float32Array(bytes.buffer, bytes.byteOffset, elements);
  const out = new Float32Array(elements);
  DECODERS[type](bytes, out);
  return out;
}

/** Bits of the float32 that equals the float16 with the given bits; NaN payloads are kept. */
function halfToFloatBits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | 0x7f800000 | (fraction << 13);
  if (exponent !== 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  const shift = Math.clz32(fraction) - 21; // brings the leading bit of a subnormal to bit 10
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}

const HALF_BITS = Int32Array.from({ length: 0x10000 }, (_, half) => halfToFloatBits(half));
const HALF = new Float32Array(HALF_BITS.buffer);

type Decoder = (bytes: Uint8Array, out: Float32Array) => void;

// Indices stay inside `bytes` and `out`: `dequantise` has checked the lengths. `at` runs over bytes, `o` over weights.
const half = (b: Uint8Array, at: number): number => HALF[b[at]! | (b[at + 1]! << 8)]!;

const DECODERS: Record<TensorType, Decoder> = {
  F32(b, out) {
    new Uint8Array(out.buffer).set(b);
  },

  F16(b, out) {
    const bits = new Int32Array(out.buffer);
    for (let i = 0; i < bits.length; i++) bits[i] = HALF_BITS[b[2 * i]! | (b[2 * i + 1]! << 8)]!;
  },

  BF16(b, out) {
    const bits = new Int32Array(out.buffer);
    for (let i = 0; i < bits.length; i++) bits[i] = (b[2 * i]! << 16) | (b[2 * i + 1]! << 24);
  },

  /** d, 16 bytes of nibbles: weight = d (q - 8). The low nibbles are weights 0-15, the high ones 16-31. */
  Q4_0(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 18, o += 32) {
      const d = half(b, at);
      for (let j = 0; j < 16; j++) {
        const q = b[at + 2 + j]!;
        out[o + j] = d * ((q & 15) - 8);
        out[o + 16 + j] = d * ((q >> 4) - 8);
      }
    }
  },

  /** d, m, 16 bytes of nibbles: weight = d q + m. */
  Q4_1(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 20, o += 32) {
      const d = half(b, at);
      const m = half(b, at + 2);
      for (let j = 0; j < 16; j++) {
        const q = b[at + 4 + j]!;
        out[o + j] = d * (q & 15) + m;
        out[o + 16 + j] = d * (q >> 4) + m;
      }
    }
  },

  /** d, 4 bytes with the fifth bits, 16 bytes of nibbles: weight = d (q - 16). */
  Q5_0(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 22, o += 32) {
      const d = half(b, at);
      const high = b[at + 2]! | (b[at + 3]! << 8) | (b[at + 4]! << 16) | (b[at + 5]! << 24);
      for (let j = 0; j < 16; j++) {
        const q = b[at + 6 + j]!;
        out[o + j] = d * (((q & 15) | (((high >>> j) & 1) << 4)) - 16);
        out[o + 16 + j] = d * (((q >> 4) | (((high >>> (j + 16)) & 1) << 4)) - 16);
      }
    }
  },

  /** d, m, 4 bytes with the fifth bits, 16 bytes of nibbles: weight = d q + m. */
  Q5_1(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 24, o += 32) {
      const d = half(b, at);
      const m = half(b, at + 2);
      const high = b[at + 4]! | (b[at + 5]! << 8) | (b[at + 6]! << 16) | (b[at + 7]! << 24);
      for (let j = 0; j < 16; j++) {
        const q = b[at + 8 + j]!;
        out[o + j] = d * ((q & 15) | (((high >>> j) & 1) << 4)) + m;
        out[o + 16 + j] = d * ((q >> 4) | (((high >>> (j + 16)) & 1) << 4)) + m;
      }
    }
  },

  /** d, 32 signed bytes: weight = d q. */
  Q8_0(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 34, o += 32) {
      const d = half(b, at);
      for (let j = 0; j < 32; j++) out[o + j] = d * ((b[at + 2 + j]! << 24) >> 24);
    }
  },

  /** d, dmin, 12 bytes of 6-bit scales, 128 bytes of nibbles: weight = d scale q - dmin min, per 32 weights. */
  Q4_K(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 144, o += 256) {
      for (let s = 0; s < 8; s++) {
        const d = half(b, at) * kScale(b, at + 4, s);
        const m = half(b, at + 2) * kMin(b, at + 4, s);
        const qs = at + 16 + 32 * (s >> 1);
        const shift = 4 * (s & 1);
        for (let j = 0; j < 32; j++) out[o + 32 * s + j] = d * ((b[qs + j]! >> shift) & 15) - m;
      }
    }
  },

  /** As Q4_K, with 32 bytes of fifth bits before the nibbles: bit s of byte j belongs to weight j of group s. */
  Q5_K(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 176, o += 256) {
      for (let s = 0; s < 8; s++) {
        const d = half(b, at) * kScale(b, at + 4, s);
        const m = half(b, at + 2) * kMin(b, at + 4, s);
        const high = at + 16;
        const qs = at + 48 + 32 * (s >> 1);
        const shift = 4 * (s & 1);
        for (let j = 0; j < 32; j++) {
          const q = ((b[qs + j]! >> shift) & 15) | (((b[high + j]! >> s) & 1) << 4);
          out[o + 32 * s + j] = d * q - m;
        }
      }
    }
  },

  /** 128 bytes of low nibbles, 64 of high pairs, 16 signed scales, d: weight = d scale (q - 32), a scale per 16. */
  Q6_K(b, out) {
    for (let at = 0, o = 0; o < out.length; at += 210, o += 256) {
      const d = half(b, at + 208);
      for (let s = 0; s < 16; s++) {
        const scale = d * ((b[at + 192 + s]! << 24) >> 24);
        // Each half of the block has four runs of 32 weights: nibbles from two 32-byte rows, two bits from one.
        const second = s >> 3;
        const run = (s >> 1) & 3;
        const start = 16 * (s & 1);
        const low = at + 64 * second + 32 * (run & 1) + start;
        const high = at + 128 + 32 * second + start;
        const lowShift = 4 * (run >> 1);
        const highShift = 2 * run;
        for (let j = 0; j < 16; j++) {
          const q = ((b[low + j]! >> lowShift) & 15) | (((b[high + j]! >> highShift) & 3) << 4);
          out[o + 16 * s + j] = scale * (q - 32);
        }
      }
    }
  },
};

/** The 6-bit scale of group s: groups 4-7 keep their high two bits in the bytes of groups 0-3. */
function kScale(b: Uint8Array, at: number, s: number): number {
  return s < 4 ? b[at + s]! & 63 : (b[at + 4 + s]! & 15) | ((b[at + s - 4]! >> 6) << 4);
}

/** The 6-bit minimum of group s, packed after the scales in the same way. */
function kMin(b: Uint8Array, at: number, s: number): number {
  return s < 4 ? b[at + 4 + s]! & 63 : (b[at + 4 + s]! >> 4) | ((b[at + s]! >> 6) << 4);
}
