import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { AtomicFile, fileError } from '../base/files';
import { ByteSource, elementsOf, quoted, refuseOverlaps, truncated } from './byte-source';
import type { TensorSource } from './checkpoint-types';
import { dequantise } from './dequantise';
import { parseHeader, type SafetensorsEntry } from './safetensors-header';

/** An open safetensors file: the header in memory, the tensors on disk. */
export interface SafetensorsFile extends TensorSource {
  readonly path: string;
  /** The texts of `__metadata__`. */
  readonly metadata: ReadonlyMap<string, string>;
  readonly tensors: ReadonlyMap<string, SafetensorsEntry>;
  /** The stored bytes of one tensor, in a buffer of their own. */
  read(name: string): Uint8Array;
}

const LENGTH_BYTES = 8;
const MAX_HEADER = 100 * 2 ** 20; // the format's own limit
const MAX_JSON = 32 * 2 ** 20;
const DAMAGED = 'the file is damaged: fetch it again';

/**
 * Opens a safetensors file and reads its header. Lengths, shapes and offsets are checked against the file's size before
 * anything is allocated for them; as in the reference implementation, the tensors must fill the file without gaps.
 * @throws CalmError naming the file and the tensor at fault.
 */
export function openSafetensors(file: string): SafetensorsFile {
  const source = new ByteSource(file);
  try {
    const { tensors, metadata, dataStart } = readHeader(source);
    const find = (name: string): SafetensorsEntry => {
      const entry = tensors.get(name);
      if (!entry) throw new CalmError(`${file} has no tensor ${quoted(name)}`);
      return entry;
    };
    const read = (name: string): Uint8Array => source.read(dataStart + find(name).offset, find(name).byteLength);
    return {
      path: file,
      metadata,
      tensors,
      read,
      names: () => tensors.keys(),
      shape: (name) => [...find(name).shape],
      float32: (name) => toFloat32(file, find(name), () => read(name)),
      stored: (name) => {
        const { dtype } = find(name);
        return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16' ? { type: dtype, bytes: read(name) } : undefined;
      },
      close: () => source.close(),
    };
  } catch (error) {
    source.close();
    throw error;
  }
}

function readHeader(source: ByteSource): ReturnType<typeof parseHeader> & { dataStart: number } {
  const file = source.path;
  const length = Buffer.from(source.read(0, LENGTH_BYTES)).readBigUInt64LE();
  if (length > MAX_HEADER) {
    throw new CalmError(`${file} is not a safetensors file: a header of ${length} bytes is beyond the 100 MiB allowed`);
  }
  const dataStart = LENGTH_BYTES + Number(length);
  if (dataStart > source.size) throw truncated(file, dataStart, source.size, 'the header');
  const { tensors, metadata } = parseHeader(file, source.read(LENGTH_BYTES, Number(length)));

  const held = source.size - dataStart;
  let used = 0;
  for (const { name, offset, byteLength } of tensors.values()) {
    const end = offset + byteLength;
    if (end > held) throw truncated(file, dataStart + end, source.size, `tensor ${quoted(name)}`);
    used += byteLength;
  }
  refuseOverlaps(file, tensors.values());
  // Without overlaps and all in range, they fill the file just when their lengths add up to it.
  if (used !== held) {
    throw new CalmError(`${file}: its tensors take ${used} bytes, but ${held} follow the header`, { remedy: DAMAGED });
  }
  return { tensors, metadata, dataStart };
}

function toFloat32(file: string, entry: SafetensorsEntry, read: () => Uint8Array): Float32Array {
  const { dtype, shape } = entry;
  switch (dtype) {
    case 'F32':
    case 'F16':
    case 'BF16':
      return dequantise(dtype, read(), elementsOf(shape) as number);
    case 'F64':
      return new Float32Array(new Float64Array(read().buffer));
    default:
      throw new CalmError(`${file}: tensor ${quoted(entry.name)} holds ${dtype}, not weights`, {
        remedy: 'weights are F32, F16, BF16 or F64',
      });
  }
}

/**
 * Opens the weights of a folder in Hugging Face layout: `model.safetensors`, or the shards that
 * `model.safetensors.index.json` lists. Shards are plain names in the folder; nothing outside it is opened by name.
 * @throws CalmError naming the folder, shard or tensor that is missing or wrong; also when `config.json` says that the
 * weights are stored quantised (GPTQ, AWQ, bitsandbytes, …), which this does not read.
 */
export function openCheckpoint(folder: string): TensorSource {
  refuseQuantised(path.join(folder, 'config.json'));
  const single = path.join(folder, 'model.safetensors');
  if (fs.existsSync(single)) return openSafetensors(single);
  const index = path.join(folder, 'model.safetensors.index.json');
  if (fs.existsSync(index)) return openShards(folder, index);
  let files: string[];
  try {
    files = fs.readdirSync(folder);
  } catch (error) {
    throw fileError(error, folder, 'read');
  }
  const pickled = files.find((f) => /^pytorch_model.*\.bin/.test(f));
  throw new CalmError(`${folder} has neither model.safetensors nor model.safetensors.index.json`, {
    remedy: pickled ? `save ${pickled} with safe_serialization=True` : 'name a folder in Hugging Face layout',
  });
}

function refuseQuantised(configFile: string): void {
  if (!fs.existsSync(configFile)) return;
  const config = readSmallJson(configFile);
  const quantisation = isObject(config) ? config['quantization_config'] : undefined;
  if (quantisation === undefined || quantisation === null) return;
  const method = isObject(quantisation) ? quantisation['quant_method'] : undefined;
  const stored = typeof method === 'string' ? quoted(method) : 'some method';
  throw new CalmError(`${configFile}: the weights are stored quantised by ${stored}, which is not supported`, {
    remedy: 'use the unquantised checkpoint or a GGUF file',
  });
}

function openShards(folder: string, index: string): TensorSource {
  const shardOf = readIndex(index);
  const shards = new Map<string, SafetensorsFile>();
  const close = () => shards.forEach((shard) => shard.close());
  try {
    for (const [name, shardName] of shardOf) {
      const shard = shards.get(shardName) ?? openSafetensors(path.join(folder, shardName));
      shards.set(shardName, shard);
      if (!shard.tensors.has(name)) {
        throw new CalmError(`${shard.path} has no tensor ${quoted(name)}, but ${index} says it has`);
      }
    }
  } catch (error) {
    close();
    throw error;
  }
  const find = (name: string): SafetensorsFile => {
    const shard = shards.get(shardOf.get(name) ?? '');
    if (!shard) throw new CalmError(`${index} has no tensor ${quoted(name)}`);
    return shard;
  };
  return {
    names: () => shardOf.keys(),
    shape: (name) => find(name).shape(name),
    float32: (name) => find(name).float32(name),
    stored: (name) => find(name).stored(name),
    close,
  };
}

/** The shard's file name of each tensor. */
function readIndex(index: string): Map<string, string> {
  const json = readSmallJson(index);
  const map = isObject(json) ? json['weight_map'] : undefined;
  if (!isObject(map)) throw new CalmError(`${index} has no weight_map`, { remedy: DAMAGED });
  const shardOf = new Map<string, string>();
  for (const [name, shard] of Object.entries(map)) {
    if (typeof shard !== 'string' || !/^[^/\\:\0]+\.safetensors$/.test(shard)) {
      throw new CalmError(
        `${index}: tensor ${quoted(name)} is said to be in ${quoted(String(JSON.stringify(shard)))}, ` +
          'which is not the name of a .safetensors file in the same folder',
      );
    }
    shardOf.set(name, shard);
  }
  return shardOf;
}

function readSmallJson(file: string): unknown {
  const source = new ByteSource(file);
  try {
    if (source.size > MAX_JSON) throw new CalmError(`${file} has ${source.size} bytes, beyond the 32 MiB allowed`);
    return JSON.parse(Buffer.from(source.read(0, source.size)).toString('utf8'));
  } catch (error) {
    if (error instanceof CalmError) throw error;
    throw new CalmError(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  } finally {
    source.close();
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Writes float32 tensors as a safetensors file, whole or not at all. Tensors are laid out in the order of their names,
 * so equal content gives equal bytes.
 * @throws CalmError when a shape does not match its data or the file cannot be written.
 */
export function writeSafetensors(
  file: string,
  tensors: Readonly<Record<string, { shape: readonly number[]; data: Float32Array }>>,
  metadata: Readonly<Record<string, string>> = {},
): void {
  const sorted = Object.entries(tensors).sort(([a], [b]) => (a < b ? -1 : 1));
  const entries: [string, unknown][] = [];
  if (Object.keys(metadata).length > 0) entries.push(['__metadata__', metadata]);
  let offset = 0;
  for (const [name, { shape, data }] of sorted) {
    if (elementsOf(shape) !== data.length || name === '__metadata__') {
      throw new CalmError(`tensor ${quoted(name)} of shape [${shape.join(', ')}] cannot hold ${data.length} numbers`);
    }
    const end = offset + data.byteLength;
    entries.push([name, { dtype: 'F32', shape, data_offsets: [offset, end] }]);
    offset = end;
  }
  // Joined by hand because an object would move names such as "0" to its front.
  const json = `{${entries.map(([name, entry]) => `${JSON.stringify(name)}:${JSON.stringify(entry)}`).join(',')}}`;
  const header = Buffer.from(json);
  const padded = Math.ceil(header.length / LENGTH_BYTES) * LENGTH_BYTES; // the data starts aligned, as readers may want
  const start = Buffer.alloc(LENGTH_BYTES + padded, ' ');
  start.writeBigUInt64LE(BigInt(padded));
  header.copy(start, LENGTH_BYTES);

  const out = new AtomicFile(file);
  out.write(start);
  for (const [, { data }] of sorted) out.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  out.commit();
}
