import { CalmError } from '../base/errors';
import { ByteSource, elementsOf, quoted, refuseOverlaps, truncated } from './byte-source';
import type { TensorSource } from './checkpoint-types';
import { blockLayout, dequantise, tensorTypes, type TensorType } from './dequantise';

/**
 * A metadata value. Numbers of an array come as the typed array of their type (booleans as 0 and 1 in a Uint8Array),
 * so they take no more memory than in the file. A 64-bit integer beyond 2^53 is a bigint.
 */
export type GgufValue =
  | number
  | bigint
  | boolean
  | string
  | string[]
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | BigUint64Array
  | BigInt64Array
  | Float64Array;

export interface GgufTensor {
  readonly name: string;
  /** Row-major: the reverse of the order in the file. */
  readonly shape: readonly number[];
  readonly type: TensorType;
  /** Position of the first byte in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/** An open GGUF file: the header in memory, the tensors on disk. */
export interface GgufFile extends TensorSource {
  readonly path: string;
  /** Keys as in the file (`llama.block_count`); the object has no prototype, so any key is safe. */
  readonly metadata: Readonly<Record<string, GgufValue>>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  /** The stored bytes of one tensor, in a buffer of their own. */
  read(name: string): Uint8Array;
}

const MAX_DIMS = 4; // GGML_MAX_DIMS
const DEFAULT_ALIGNMENT = 32;
// Far beyond any real file, and what keeps a huge hostile one from filling the heap with small objects.
const MAX_KEYS = 2 ** 16;
const MAX_TENSORS = 2 ** 20;
const MAX_STRINGS = 2 ** 23;
const MAX_STRING_BYTES = 2 ** 28;

const SHORTEST_KEY = 8 + 4 + 1;
const SHORTEST_TENSOR = 8 + 4 + 4 + 8;

/** ggml's type numbers. Those without a decoder here are listed to be named in the error. */
// prettier-ignore
const TYPE_NAMES: Readonly<Record<number, string>> = {
  0: 'F32', 1: 'F16', 2: 'Q4_0', 3: 'Q4_1', 6: 'Q5_0', 7: 'Q5_1', 8: 'Q8_0', 9: 'Q8_1',
  10: 'Q2_K', 11: 'Q3_K', 12: 'Q4_K', 13: 'Q5_K', 14: 'Q6_K', 15: 'Q8_K', 16: 'IQ2_XXS', 17: 'IQ2_XS', 18: 'IQ3_XXS',
  19: 'IQ1_S', 20: 'IQ4_NL', 21: 'IQ3_S', 22: 'IQ2_S', 23: 'IQ4_XS', 24: 'I8', 25: 'I16', 26: 'I32', 27: 'I64',
  28: 'F64', 29: 'IQ1_M', 30: 'BF16', 34: 'TQ1_0', 35: 'TQ2_0', 39: 'MXFP4',
};

interface Scalar {
  bytes: number;
  read(buffer: Buffer, at: number): number | bigint;
  array(buffer: ArrayBuffer): Exclude<GgufValue, number | bigint | boolean | string | string[]>;
}

const STRING = 8;
const ARRAY = 9;
const BOOL = 7;
const UINT32 = 4;

/** Metadata value types of fixed size, by their number in the file. */
const SCALARS: Readonly<Record<number, Scalar>> = {
  0: { bytes: 1, read: (b, at) => b.readUInt8(at), array: (b) => new Uint8Array(b) },
  1: { bytes: 1, read: (b, at) => b.readInt8(at), array: (b) => new Int8Array(b) },
  2: { bytes: 2, read: (b, at) => b.readUInt16LE(at), array: (b) => new Uint16Array(b) },
  3: { bytes: 2, read: (b, at) => b.readInt16LE(at), array: (b) => new Int16Array(b) },
  [UINT32]: { bytes: 4, read: (b, at) => b.readUInt32LE(at), array: (b) => new Uint32Array(b) },
  5: { bytes: 4, read: (b, at) => b.readInt32LE(at), array: (b) => new Int32Array(b) },
  6: { bytes: 4, read: (b, at) => b.readFloatLE(at), array: (b) => new Float32Array(b) },
  [BOOL]: { bytes: 1, read: (b, at) => b.readUInt8(at), array: (b) => new Uint8Array(b) },
  10: { bytes: 8, read: (b, at) => b.readBigUInt64LE(at), array: (b) => new BigUint64Array(b) },
  11: { bytes: 8, read: (b, at) => b.readBigInt64LE(at), array: (b) => new BigInt64Array(b) },
  12: { bytes: 8, read: (b, at) => b.readDoubleLE(at), array: (b) => new Float64Array(b) },
};

/** Reads little-endian values one after another, through a window on the file that moves along. */
class Cursor {
  position = 0;
  /** What is being read, for error lines. */
  where = 'the header';
  private window = Buffer.alloc(0);
  private windowStart = 0;
  private readonly windowBytes = 2 ** 20;

  constructor(readonly source: ByteSource) {}

  fail(what: string, remedy?: string): CalmError {
    return new CalmError(`${this.source.path}: ${this.where}: ${what}`, { remedy });
  }

  u32(): number {
    const at = this.advance(4);
    return this.window.readUInt32LE(at);
  }

  /** A 64-bit length, count or offset. */
  u64(what: string): number {
    const at = this.advance(8);
    const value = this.window.readBigUInt64LE(at);
    if (value > Number.MAX_SAFE_INTEGER) throw this.fail(`${what} ${value} is beyond any file`, DAMAGED);
    return Number(value);
  }

  /** A count of things that take at least `bytes` each, so many as the rest of the file can hold. */
  count(what: string, bytes: number, most: number): number {
    const n = this.u64(what);
    if (n * bytes > this.source.size - this.position) {
      throw truncated(this.source.path, this.position + n * bytes, this.source.size, `${this.where}, ${what} ${n}`);
    }
    if (n > most) throw this.fail(`${what} ${n} is more than ${most}`, DAMAGED);
    return n;
  }

  string(): string {
    const length = this.count('string length', 1, MAX_STRING_BYTES);
    const at = this.advance(length);
    const text = this.window.toString('utf8', at, at + length);
    // U+FFFD is what bad UTF-8 decodes to, and what its own three bytes decode to.
    if (text.includes('\uFFFD') && Buffer.compare(Buffer.from(text), this.window.subarray(at, at + length)) !== 0) {
      throw this.fail('a string is not UTF-8', DAMAGED);
    }
    return text;
  }

  value(type: number): GgufValue {
    if (type === STRING) return this.string();
    if (type === ARRAY) return this.array();
    const scalar = SCALARS[type];
    if (!scalar) throw this.fail(`unknown value type ${type}`, DAMAGED);
    const at = this.advance(scalar.bytes);
    const value = scalar.read(this.window, at);
    if (type === BOOL) return this.bool(value);
    return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }

  private array(): GgufValue {
    const type = this.u32();
    if (type === STRING) {
      const texts: string[] = [];
      for (let left = this.count('array length', 8, MAX_STRINGS); left > 0; left--) texts.push(this.string());
      return texts;
    }
    if (type === ARRAY) throw this.fail('an array of arrays is not supported (nor by ggml)');
    const scalar = SCALARS[type];
    if (!scalar) throw this.fail(`unknown element type ${type}`, DAMAGED);
    const bytes = this.count('array length', scalar.bytes, Infinity) * scalar.bytes;
    const at = this.advance(bytes) + this.window.byteOffset;
    const values = scalar.array(this.window.buffer.slice(at, at + bytes));
    if (type === BOOL) values.forEach((v: number | bigint) => this.bool(v));
    return values;
  }

  private bool(value: number | bigint): boolean {
    if (value !== 0 && value !== 1) throw this.fail(`a boolean is ${value}, not 0 or 1`, DAMAGED);
    return value === 1;
  }

  /** Moves past `length` bytes and gives their place in the window. */
  private advance(length: number): number {
    const left = this.source.size - this.position;
    if (length > left) throw truncated(this.source.path, this.position + length, this.source.size, this.where);
    if (this.position + length > this.windowStart + this.window.length) {
      const bytes = this.source.read(this.position, Math.min(left, Math.max(length, this.windowBytes)));
      this.window = Buffer.from(bytes.buffer as ArrayBuffer);
      this.windowStart = this.position;
    }
    const at = this.position - this.windowStart;
    this.position += length;
    return at;
  }
}

const DAMAGED = 'the file is damaged: fetch it again';

/**
 * Opens a GGUF file (versions 2 and 3, little-endian) and reads its header. Every count, length, shape and offset is
 * checked against the file's size before anything is allocated for it.
 * @throws CalmError naming the file and the key or tensor at fault.
 */
export function openGguf(path: string): GgufFile {
  const source = new ByteSource(path);
  try {
    const { metadata, tensors } = readHeader(source);
    const find = (name: string): GgufTensor => {
      const tensor = tensors.get(name);
      if (!tensor) throw new CalmError(`${path} has no tensor ${quoted(name)}`);
      return tensor;
    };
    const read = (name: string): Uint8Array => source.read(find(name).offset, find(name).byteLength);
    return {
      path,
      metadata,
      tensors,
      read,
      names: () => tensors.keys(),
      shape: (name) => [...find(name).shape],
      float32(name) {
        const { type, shape } = find(name);
        return dequantise(
          type,
          read(name),
          shape.reduce((n, dim) => n * dim, 1),
        );
      },
      stored: (name) => ({ type: find(name).type, bytes: read(name) }),
      close: () => source.close(),
    };
  } catch (error) {
    source.close();
    throw error;
  }
}

function readHeader(source: ByteSource): { metadata: Record<string, GgufValue>; tensors: Map<string, GgufTensor> } {
  const cursor = new Cursor(source);
  const magic = cursor.u32();
  if (magic === 0x47475546) throw cursor.fail(...BIG_ENDIAN);
  if (magic !== 0x46554747) throw new CalmError(`${source.path} is not a GGUF file: it does not begin with "GGUF"`);
  const version = cursor.u32();
  if (version !== 0 && version % 0x10000 === 0) throw cursor.fail(...BIG_ENDIAN);
  if (version !== 2 && version !== 3) {
    throw cursor.fail(`GGUF version ${version} is not supported`, 'convert it to version 3 with llama.cpp');
  }
  const tensorCount = cursor.count('tensor count', SHORTEST_TENSOR, MAX_TENSORS);
  const keyCount = cursor.count('metadata count', SHORTEST_KEY, MAX_KEYS);

  const metadata = Object.create(null) as Record<string, GgufValue>;
  let alignment = DEFAULT_ALIGNMENT;
  for (let i = 0; i < keyCount; i++) {
    cursor.where = `metadata key ${i + 1} of ${keyCount}`;
    const key = cursor.string();
    cursor.where = `metadata key ${quoted(key)}`;
    if (key in metadata) throw cursor.fail('appears twice', DAMAGED);
    const type = cursor.u32();
    const value = cursor.value(type);
    metadata[key] = value;
    if (key === 'general.alignment') alignment = checkedAlignment(cursor, type, value);
    if (key === 'split.count' && typeof value === 'number' && value > 1) {
      throw cursor.fail(`this is one of ${value} parts of a model`, 'join them with llama-gguf-split --merge');
    }
  }

  const described: GgufTensor[] = [];
  for (let i = 0; i < tensorCount; i++)
    described.push(readTensor(cursor, `tensor ${i + 1} of ${tensorCount}`, alignment));
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  const tensors = new Map<string, GgufTensor>();
  for (const relative of described) {
    const tensor = { ...relative, offset: dataStart + relative.offset };
    const where = `tensor ${quoted(tensor.name)}`;
    if (tensors.has(tensor.name)) throw new CalmError(`${source.path}: ${where} appears twice`, { remedy: DAMAGED });
    const end = tensor.offset + tensor.byteLength;
    if (end > source.size) throw truncated(source.path, end, source.size, where);
    tensors.set(tensor.name, tensor);
  }
  refuseOverlaps(source.path, tensors.values());
  return { metadata, tensors };
}

const BIG_ENDIAN: [string, string] = ['big-endian GGUF is not supported', 'convert it with gguf-convert-endian'];

function checkedAlignment(cursor: Cursor, type: number, value: GgufValue): number {
  // A power of two times eight, as the specification wants it ("a multiple of 8") and ggml ("a power of two").
  if (type === UINT32 && typeof value === 'number' && value >= 8 && Number.isInteger(Math.log2(value))) return value;
  throw cursor.fail(`is not a 32-bit power of two of at least 8`, DAMAGED);
}

/** One tensor's description, its offset still counted from the start of the data. */
function readTensor(cursor: Cursor, place: string, alignment: number): GgufTensor {
  cursor.where = place;
  const name = cursor.string();
  cursor.where = `tensor ${quoted(name)}`;
  const dims = cursor.u32();
  if (dims > MAX_DIMS) throw cursor.fail(`${dims} dimensions, more than ${MAX_DIMS}`, DAMAGED);
  const shape: number[] = [];
  for (let i = 0; i < dims; i++) shape.unshift(cursor.u64('dimension'));
  if (shape.includes(0)) throw cursor.fail('a dimension is 0', DAMAGED);
  const typeNumber = cursor.u32();
  const offset = cursor.u64('offset');

  const typeName = TYPE_NAMES[typeNumber];
  const type = tensorTypes.find((t) => t === typeName);
  if (!type) {
    const what = typeName ? `type ${typeName} (${typeNumber}) is not supported` : `unknown tensor type ${typeNumber}`;
    throw cursor.fail(what, `use a file of ${tensorTypes.join(', ')}`);
  }
  const { block, bytes } = blockLayout(type);
  const row = shape.at(-1) ?? 1;
  if (row % block !== 0) throw cursor.fail(`rows of ${row} weights are not whole ${type} blocks of ${block}`, DAMAGED);
  const elements = elementsOf(shape);
  if (elements === undefined) throw cursor.fail(`shape ${shape.join('x')} is beyond any file`, DAMAGED);
  if (offset % alignment !== 0) throw cursor.fail(`offset ${offset} is not a multiple of ${alignment}`, DAMAGED);
  return { name, shape, type, offset, byteLength: (elements / block) * bytes };
}
