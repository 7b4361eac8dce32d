import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll } from 'vitest';
import { CalmError } from '../../src/base/errors';
import type { Random } from '../../src/engine/random';

/** A fresh folder that goes away after the tests of the file. */
export function temporaryFolder(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-model-'));
  afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Where a header field stands in a made file. */
export interface Field {
  at: number;
  bytes: number;
}

const VALUE_TYPES = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
};
export type ValueType = Exclude<keyof typeof VALUE_TYPES, 'array'>;

export interface GgufParts {
  version?: number;
  alignment?: number;
  /** [key, type, value], or [key, [element type], values] for an array. */
  metadata?: [string, ValueType | [ValueType], unknown][];
  /** `dims` in file order (the row length first); `offset` when it is not where the builder would put the data. */
  tensors?: { name: string; dims: number[]; type: number; data: Uint8Array; offset?: number }[];
}

/** Writes a GGUF file by the book, and says where each header field is: `version`, `kv.KEY.type`, `tensor.NAME.offset`, … */
export function makeGguf(parts: GgufParts): { bytes: Buffer; fields: Map<string, Field>; dataStart: number } {
  const pieces: Buffer[] = [];
  const fields = new Map<string, Field>();
  let at = 0;
  const put = (field: string, bytes: Buffer) => {
    fields.set(field, { at, bytes: bytes.length });
    pieces.push(bytes);
    at += bytes.length;
  };
  const string = (field: string, text: string) => {
    put(`${field}.length`, scalar('u64', Buffer.byteLength(text)));
    put(`${field}.text`, Buffer.from(text));
  };
  const value = (field: string, type: ValueType, v: unknown) => {
    if (type === 'string') string(field, v as string);
    else put(field, scalar(type, v as number | bigint));
  };

  const metadata = [...(parts.metadata ?? [])];
  if (parts.alignment !== undefined) metadata.push(['general.alignment', 'u32', parts.alignment]);
  const tensors = parts.tensors ?? [];
  put('magic', Buffer.from('GGUF'));
  put('version', scalar('u32', parts.version ?? 3));
  put('tensor_count', scalar('u64', tensors.length));
  put('kv_count', scalar('u64', metadata.length));
  for (const [key, type, v] of metadata) {
    string(`kv.${key}.key`, key);
    if (typeof type === 'string') {
      put(`kv.${key}.type`, scalar('u32', VALUE_TYPES[type]));
      value(`kv.${key}.value`, type, v);
    } else {
      const values = v as unknown[];
      put(`kv.${key}.type`, scalar('u32', VALUE_TYPES.array));
      put(`kv.${key}.element_type`, scalar('u32', VALUE_TYPES[type[0]]));
      put(`kv.${key}.count`, scalar('u64', values.length));
      values.forEach((element, i) => value(`kv.${key}.${i}`, type[0], element));
    }
  }
  const alignment = parts.alignment ?? 32;
  const align = (n: number) => Math.ceil(n / alignment) * alignment;
  let offset = 0;
  for (const { name, dims, type, data, offset: given } of tensors) {
    string(`tensor.${name}.name`, name);
    put(`tensor.${name}.n_dims`, scalar('u32', dims.length));
    dims.forEach((dim, i) => put(`tensor.${name}.dim${i}`, scalar('u64', dim)));
    put(`tensor.${name}.type`, scalar('u32', type));
    put(`tensor.${name}.offset`, scalar('u64', given ?? offset));
    offset = align(offset + data.length);
  }
  const dataStart = align(at);
  for (const { data } of tensors) {
    pieces.push(Buffer.alloc(align(at) - at), Buffer.from(data));
    at = align(at) + data.length;
  }
  return { bytes: Buffer.concat(pieces), fields, dataStart };
}

function scalar(type: Exclude<ValueType, 'string'>, value: number | bigint): Buffer {
  const n = Number(value);
  const b = Buffer.alloc(8);
  const write: Record<typeof type, () => number> = {
    u8: () => b.writeUInt8(n),
    i8: () => b.writeInt8(n),
    u16: () => b.writeUInt16LE(n),
    i16: () => b.writeInt16LE(n),
    u32: () => b.writeUInt32LE(n),
    i32: () => b.writeInt32LE(n),
    f32: () => b.writeFloatLE(n),
    bool: () => b.writeUInt8(n),
    u64: () => b.writeBigUInt64LE(BigInt(value)),
    i64: () => b.writeBigInt64LE(BigInt(value)),
    f64: () => b.writeDoubleLE(n),
  };
  return b.subarray(0, write[type]());
}

/** A copy of `bytes` with one field overwritten, little-endian. */
export function withField(bytes: Buffer, field: Field | undefined, value: number | bigint | Buffer): Buffer {
  if (!field) throw new Error('no such field');
  const out = Buffer.from(bytes);
  if (Buffer.isBuffer(value)) value.copy(out, field.at);
  else out.set(scalar(field.bytes === 8 ? 'u64' : field.bytes === 4 ? 'u32' : 'u8', value), field.at);
  return out;
}

/** A safetensors file from a header, as an object or as text, and its data; `length` when the declared one is a lie. */
export function makeSafetensors(header: unknown, data: Uint8Array, length?: number | bigint): Buffer {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  return Buffer.concat([scalar('u64', length ?? text.length), text, data]);
}

/** The bytes of numbers, little-endian. */
export function float32Bytes(...values: number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}

export function uint16Bytes(...values: number[]): Uint8Array {
  return new Uint8Array(Uint16Array.from(values).buffer);
}

/** The error a call throws, which must be a CalmError. */
export function calmError(call: () => unknown): CalmError {
  try {
    call();
  } catch (error) {
    if (error instanceof CalmError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

// prettier-ignore
const AUDITED = [
  'ArrayBuffer', 'Uint8Array', 'Int8Array', 'Uint16Array', 'Int16Array', 'Uint32Array', 'Int32Array', 'Float32Array',
  'BigUint64Array', 'BigInt64Array', 'Float64Array', 'Array',
] as const;

/** Runs `call` and gives the bytes of the largest buffer or preallocated array it constructed. */
export function largestAllocation(call: () => unknown): number {
  let largest = 0;
  const note = (bytes: unknown) => {
    if (typeof bytes === 'number' && bytes > largest) largest = bytes;
  };
  const globals = globalThis as unknown as Record<string, { BYTES_PER_ELEMENT?: number }>;
  const originals = AUDITED.map((name) => [name, globals[name]] as const);
  const alloc = Buffer.alloc.bind(Buffer);
  const allocUnsafe = Buffer.allocUnsafe.bind(Buffer);
  for (const [name, original] of originals) {
    const width = original?.BYTES_PER_ELEMENT ?? (name === 'Array' ? 8 : 1);
    globals[name] = new Proxy(original as never, {
      construct(target, args: unknown[], newTarget) {
        if (typeof args[0] === 'number') note(args[0] * width);
        return Reflect.construct(target, args, newTarget) as object;
      },
    });
  }
  Buffer.alloc = (size, ...rest) => (note(size), alloc(size, ...(rest as [])));
  Buffer.allocUnsafe = (size) => (note(size), allocUnsafe(size));
  try {
    call();
  } finally {
    for (const [name, original] of originals) globals[name] = original as never;
    Object.assign(Buffer, { alloc, allocUnsafe });
  }
  return largest;
}

// prettier-ignore
const EXTREMES = [
  0n, 1n, 2n, 7n, 255n, 2n ** 16n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 40n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n,
];

/** A damaged copy: one to three times, within the first `header` bytes, bytes are changed, removed, repeated or cut. */
export function mutate(random: Random, bytes: Buffer, header: number): Buffer {
  let out = Buffer.from(bytes);
  for (let times = 1 + random.integer(3); times > 0 && out.length > 16; times--) {
    const at = random.integer(Math.min(header, out.length - 8));
    const run = 1 + random.integer(Math.min(40, out.length - at));
    const extreme = EXTREMES[random.integer(EXTREMES.length)] as bigint;
    const damage: (() => void)[] = [
      () => out.writeUInt8(random.integer(256), at),
      () => out.writeUInt8((out[at] as number) ^ (1 << random.integer(8)), at),
      () => out.writeBigUInt64LE(extreme, at),
      () => out.writeUInt32LE(Number(extreme & 0xffffffffn), at),
      () => (out = Buffer.concat([out.subarray(0, at), out.subarray(at + run)])),
      () => (out = Buffer.concat([out.subarray(0, at + run), out.subarray(at)])),
      () => (out = out.subarray(0, random.integer(out.length))),
      () => out.copy(out, at, random.integer(Math.min(header, out.length)), header),
    ];
    damage[random.integer(damage.length)]?.();
  }
  return out;
}

/**
 * Opens `count` damaged copies of `bytes`. Each must open, or be refused by a CalmError in one line that names the
 * file; within a second; without an allocation beyond the file's size.
 * @returns how many opened and how many were refused.
 */
export function fuzz(
  file: string,
  bytes: Buffer,
  header: number,
  count: number,
  random: Random,
  open: (file: string) => {
    names(): Iterable<string>;
    read(name: string): Uint8Array;
    float32(name: string): Float32Array;
    close(): void;
  },
): { opened: number; refused: number } {
  const tally = { opened: 0, refused: 0 };
  const refusal = (error: unknown, sample: Buffer, what: string) => {
    if (error instanceof CalmError && error.message.includes(file) && !error.line.includes('\n')) return;
    throw new Error(`${what} threw ${String(error)} on ${sample.subarray(0, header).toString('base64')}`, {
      cause: error,
    });
  };
  for (let i = 0; i < count; i++) {
    const sample = mutate(random, bytes, header);
    fs.writeFileSync(file, sample);
    const started = performance.now();
    let opened: ReturnType<typeof open> | undefined;
    const largest = largestAllocation(() => {
      try {
        opened = open(file);
        for (const name of opened.names()) opened.read(name);
      } catch (error) {
        refusal(error, sample, 'open');
      }
    });
    if (opened) {
      tally.opened++;
      for (const name of opened.names()) {
        try {
          opened.float32(name);
        } catch (error) {
          refusal(error, sample, 'float32');
        }
      }
      opened.close();
    } else tally.refused++;
    const took = performance.now() - started;
    const context = `on ${sample.subarray(0, header).toString('base64')}`;
    if (largest > sample.length)
      throw new Error(`allocated ${largest} bytes for a file of ${sample.length} ${context}`);
    if (took > 1000) throw new Error(`took ${took} ms ${context}`);
  }
  return tally;
}
