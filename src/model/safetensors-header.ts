import { CalmError } from '../base/errors';
import { elementsOf, quoted } from './byte-source';

/** Bytes an element of each dtype takes, by the dtype's name in the header. */
export const DTYPE_BYTES = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  U16: 2,
  I16: 2,
  F16: 2,
  BF16: 2,
  U32: 4,
  I32: 4,
  F32: 4,
  U64: 8,
  I64: 8,
  F64: 8,
} as const;

export type Dtype = keyof typeof DTYPE_BYTES;

export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: Dtype;
  /** Row-major; `[]` is a scalar. */
  readonly shape: readonly number[];
  /** Position of the first byte, counted from the end of the header. */
  readonly offset: number;
  readonly byteLength: number;
}

// Far beyond any real file, and what keeps a huge hostile header from filling the heap with small objects.
const MAX_DIMS = 16;
const MAX_METADATA = 2 ** 16;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const DAMAGED = 'the file is damaged: fetch it again';

/**
 * Parses the JSON header of a safetensors file. `JSON.parse` would hide a key that appears twice and build whatever a
 * hostile header asks for; this reads the one shape a header has and nothing else:
 * `{"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {"key": "text"}}`.
 * @throws CalmError naming `path` and the tensor at fault.
 */
export function parseHeader(
  path: string,
  bytes: Uint8Array,
): { tensors: Map<string, SafetensorsEntry>; metadata: Map<string, string> } {
  const scanner = new Scanner(path, bytes);
  const tensors = new Map<string, SafetensorsEntry>();
  let metadata: Map<string, string> | undefined;
  scanner.object((name) => {
    if (name === '__metadata__') {
      if (metadata) throw scanner.fail('__metadata__ appears twice');
      metadata = readMetadata(scanner);
      return;
    }
    scanner.where = `tensor ${quoted(name)}`;
    if (tensors.has(name)) throw scanner.fail('appears twice');
    tensors.set(name, readEntry(scanner, name));
    scanner.where = 'the header';
  });
  scanner.end();
  return { tensors, metadata: metadata ?? new Map<string, string>() };
}

function readMetadata(scanner: Scanner): Map<string, string> {
  const metadata = new Map<string, string>();
  scanner.where = '__metadata__';
  scanner.object((key) => {
    if (metadata.has(key)) throw scanner.fail(`key ${quoted(key)} appears twice`);
    if (metadata.size === MAX_METADATA) throw scanner.fail(`more than ${MAX_METADATA} keys`);
    metadata.set(key, scanner.string());
  });
  scanner.where = 'the header';
  return metadata;
}

function readEntry(scanner: Scanner, name: string): SafetensorsEntry {
  let dtype: Dtype | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  scanner.object((key) => {
    if (key === 'dtype' && dtype === undefined) dtype = readDtype(scanner);
    else if (key === 'shape' && shape === undefined) shape = scanner.integers('shape', MAX_DIMS);
    else if (key === 'data_offsets' && offsets === undefined) offsets = scanner.integers('data_offsets', 2);
    else throw scanner.fail(`unexpected or repeated field ${quoted(key)}`);
  });
  if (!dtype || !shape || !offsets) {
    const missing = [!dtype && 'dtype', !shape && 'shape', !offsets && 'data_offsets'].filter(Boolean);
    throw scanner.fail(`has no ${missing.join(', ')}`);
  }
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined) throw scanner.fail('data_offsets are not two numbers');
  if (end < begin) throw scanner.fail(`data_offsets [${begin}, ${end}] are reversed`);
  const elements = elementsOf(shape);
  const byteLength = (elements ?? Infinity) * DTYPE_BYTES[dtype];
  if (byteLength !== end - begin) {
    const needs = elements === undefined ? 'more bytes than any file has' : `${byteLength} bytes`;
    throw scanner.fail(`${dtype} of shape [${shape.join(', ')}] takes ${needs}, data_offsets span ${end - begin}`);
  }
  return { name, dtype, shape, offset: begin, byteLength };
}

function readDtype(scanner: Scanner): Dtype {
  const text = scanner.string();
  if (Object.hasOwn(DTYPE_BYTES, text)) return text as Dtype;
  throw scanner.fail(`unknown dtype ${quoted(text)}`, `known are ${Object.keys(DTYPE_BYTES).join(', ')}`);
}

/** Reads JSON objects, strings and arrays of whole numbers from UTF-8 bytes, front to back. */
class Scanner {
  where = 'the header';
  private at = 0;
  private readonly bytes: Buffer;

  constructor(
    private readonly path: string,
    bytes: Uint8Array,
  ) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  fail(what: string, remedy = DAMAGED): CalmError {
    return new CalmError(`${this.path}: ${this.where}: ${what}`, { remedy });
  }

  /** Reads `{"key": value, …}`, calling `value` with each key to read what follows it. */
  object(value: (key: string) => void): void {
    this.expect('{');
    if (this.accept('}')) return;
    do {
      const key = this.string();
      this.expect(':');
      value(key);
    } while (this.accept(','));
    this.expect('}');
  }

  string(): string {
    this.expect('"');
    const start = this.at;
    while (this.bytes[this.at] !== QUOTE) {
      if (this.at >= this.bytes.length) throw this.fail('a string has no end');
      this.at += this.bytes[this.at] === BACKSLASH ? 2 : 1;
    }
    const raw = this.bytes.subarray(start, this.at++);
    const text = raw.toString('utf8');
    if (text.includes('\uFFFD') && Buffer.compare(Buffer.from(text), raw) !== 0)
      throw this.fail('a string is not UTF-8');
    if (!/[\\\u0000-\u001f]/.test(text)) return text;
    try {
      return JSON.parse(`"${text}"`) as string;
    } catch (error) {
      throw this.fail(`a string is not JSON (${(error as Error).name})`);
    }
  }

  integers(what: string, most: number): number[] {
    const values: number[] = [];
    this.expect('[');
    if (this.accept(']')) return values;
    do {
      if (values.length === most) throw this.fail(`${what} has more than ${most} numbers`);
      values.push(this.integer(what));
    } while (this.accept(','));
    this.expect(']');
    return values;
  }

  private integer(what: string): number {
    this.skipSpace();
    const start = this.at;
    // 2^53 has 16 digits; a number with more of them is refused whatever they are.
    while (this.at - start < 17 && isDigit(this.bytes[this.at])) this.at++;
    const text = this.bytes.toString('latin1', start, this.at);
    if (!/^(0|[1-9]\d*)$/.test(text) || !Number.isSafeInteger(Number(text))) {
      const shown = this.bytes.toString('latin1', start, start + 24);
      throw this.fail(`${what} has something other than whole numbers of 0 to 2^53 - 1 at ${quoted(shown)}`);
    }
    return Number(text);
  }

  /** The rest must be the padding the format allows. */
  end(): void {
    this.skipSpace();
    if (this.at < this.bytes.length) throw this.fail(`something follows the closing brace at byte ${this.at}`);
  }

  private accept(character: string): boolean {
    this.skipSpace();
    if (this.bytes[this.at] !== character.charCodeAt(0)) return false;
    this.at++;
    return true;
  }

  private expect(character: string): void {
    if (!this.accept(character)) throw this.fail(`expected ${character} at byte ${this.at} of the header`);
  }

  private skipSpace(): void {
    for (let c = this.bytes[this.at]; c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09; c = this.bytes[this.at]) {
      this.at++;
    }
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}
