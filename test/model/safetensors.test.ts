import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/engine/random';
import { openCheckpoint, openSafetensors, writeSafetensors } from '../../src/model/safetensors';
import {
  calmError,
  float32Bytes,
  fuzz,
  largestAllocation,
  makeSafetensors,
  temporaryFolder,
  uint16Bytes,
} from './make-files';

const folder = temporaryFolder();
const file = path.join(folder, 'model.safetensors');

const header = {
  __metadata__: { format: 'pt', note: 'ein "Wort"\n' },
  'layer.weight': { dtype: 'F32', shape: [2, 3], data_offsets: [0, 24] },
  'layer.bias': { dtype: 'BF16', shape: [4], data_offsets: [24, 32] },
  'half.weight': { dtype: 'F16', shape: [1, 2], data_offsets: [32, 36] },
  scalar: { dtype: 'F64', shape: [], data_offsets: [36, 44] },
  ids: { dtype: 'I32', shape: [1], data_offsets: [44, 48] },
  nothing: { dtype: 'F32', shape: [0, 7], data_offsets: [48, 48] },
};
const data = Buffer.concat([
  float32Bytes(1, -2, 3, 4, 5, 6.5),
  uint16Bytes(0x3f80, 0xc049, 0x7fc0, 0x0001),
  uint16Bytes(0x3c00, 0xc000),
  new Uint8Array(Float64Array.of(0.1).buffer),
  new Uint8Array(Int32Array.of(-7).buffer),
]);
const good = makeSafetensors(header, data);

/** The error of opening `bytes`, which must name the file. */
function refusal(bytes: Buffer): string {
  fs.writeFileSync(file, bytes);
  const error = calmError(() => openSafetensors(file));
  expect(error.message).toContain(file);
  return error.line.replaceAll(file, 'FILE');
}

describe('openSafetensors', () => {
  it('reads names, shapes, texts and every kind of weight', () => {
    fs.writeFileSync(file, good);
    const opened = openSafetensors(file);
    expect([...opened.names()]).toEqual(['layer.weight', 'layer.bias', 'half.weight', 'scalar', 'ids', 'nothing']);
    expect([...opened.metadata]).toEqual([
      ['format', 'pt'],
      ['note', 'ein "Wort"\n'],
    ]);
    expect(opened.shape('layer.weight')).toEqual([2, 3]);
    expect(Array.from(opened.float32('layer.weight'))).toEqual([1, -2, 3, 4, 5, 6.5]);
    // T-13
    expect(Array.from(opened.float32('layer.bias'))).toEqual([1, -3.140625, NaN, Math.fround(9.1835e-41)]);
    expect(Array.from(opened.float32('half.weight'))).toEqual([1, -2]);
    expect(Array.from(opened.float32('scalar'))).toEqual([Math.fround(0.1)]);
    expect(opened.float32('nothing')).toHaveLength(0);
    expect(new Int32Array(opened.read('ids').buffer)).toEqual(Int32Array.of(-7));
    expect(opened.tensors.get('ids')?.dtype).toBe('I32');
    expect(calmError(() => opened.float32('ids')).line).toMatch(/tensor "ids" holds I32, not weights/);
    expect(calmError(() => opened.shape('none')).message).toMatch(/no tensor "none"/);
    opened.close();
    expect(calmError(() => opened.read('ids')).message).toMatch(/closed/);
  });

  it('reads a header with any white space, escapes, order of fields and padding', () => {
    const text = '\t{ "\\u00e9\\"" : {\n"data_offsets":[0 , 4],\r"shape" :[1],"dtype":"F3\\u0032" } }   ';
    fs.writeFileSync(file, makeSafetensors(text, float32Bytes(3)));
    const opened = openSafetensors(file);
    expect(Array.from(opened.float32('é"'))).toEqual([3]);
    opened.close();
  });

  it('reads a file without tensors', () => {
    fs.writeFileSync(file, makeSafetensors('{}', new Uint8Array(0)));
    const opened = openSafetensors(file);
    expect([...opened.names()]).toEqual([]);
    opened.close();
  });
});

describe('T-11: openSafetensors refuses', () => {
  const one = (entry: string, bytes = 4) => makeSafetensors(`{"t":${entry}}`, new Uint8Array(bytes));
  const two = (a: [number, number], b: [number, number], bytes: number) =>
    makeSafetensors(
      {
        a: { dtype: 'U8', shape: [a[1] - a[0]], data_offsets: a },
        b: { dtype: 'U8', shape: [b[1] - b[0]], data_offsets: b },
      },
      new Uint8Array(bytes),
    );

  // prettier-ignore
  it.each<[string, Buffer, RegExp]>([
    ['an empty file', Buffer.alloc(0), /truncated: needs 8 bytes, has 0/],
    ['no header', Buffer.alloc(8), /expected \{ at byte 0/],
    ['a header beyond the file', makeSafetensors(header, data, 2000), /truncated in the header: needs 2008 bytes, has/],
    ['a header over 100 MiB', makeSafetensors(header, data, 100 * 2 ** 20 + 1), /104857601 bytes is beyond the 100 MiB/],
    ['a negative header length', makeSafetensors(header, data, 2n ** 64n - 1n), /18446744073709551615 bytes is beyond/],
    ['a header cut short', makeSafetensors(header, data, 100), /FILE: tensor "layer.weight": /],
    ['a header that is not an object', makeSafetensors('[]', data), /expected \{/],
    ['a header that is not JSON', makeSafetensors('{"a" 1}', data), /expected : at byte 5/],
    ['a tensor that is no object', makeSafetensors('{"tÿ":1}', data), /FILE: tensor "tÿ": expected \{/],
    ['something after the header', makeSafetensors('{} {}', new Uint8Array(0)), /something follows the closing brace/],
    ['a name without end', makeSafetensors('{"abc', data), /a string has no end/],
    ['a name that ends in an escape', makeSafetensors('{"abc\\', data), /a string has no end/],
    ['a bad escape', makeSafetensors('{"\\x":1}', data), /a string is not JSON/],
    ['a raw control character', makeSafetensors('{"\n":1}', data), /a string is not JSON/],
    ['an unknown dtype', one('{"dtype":"F4","shape":[1],"data_offsets":[0,4]}'), /tensor "t": unknown dtype "F4"; known are BOOL/],
    ['a dtype of Object.prototype', one('{"dtype":"toString","shape":[1],"data_offsets":[0,4]}'), /unknown dtype "toString"/],
    ['a dtype that is no text', one('{"dtype":3,"shape":[1],"data_offsets":[0,4]}'), /tensor "t": expected "/],
    ['no dtype', one('{"shape":[1],"data_offsets":[0,4]}'), /tensor "t": has no dtype/],
    ['an empty entry', one('{}'), /tensor "t": has no dtype, shape, data_offsets/],
    ['a field twice', one('{"shape":[1],"shape":[1]}'), /tensor "t": unexpected or repeated field "shape"/],
    ['an extra field', one('{"x":[1]}'), /tensor "t": unexpected or repeated field "x"/],
    ['a negative dimension', one('{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}'), /"t": shape has something other than whole/],
    ['a fraction', one('{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}'), /"t": expected \]/],
    ['an exponent', one('{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}'), /"t": expected \]/],
    ['a leading zero', one('{"dtype":"F32","shape":[01],"data_offsets":[0,4]}'), /"t": shape has something other/],
    ['a dimension of 2^53', one('{"dtype":"U8","shape":[9007199254740992],"data_offsets":[0,4]}'), /"t": shape has something other/],
    ['a dimension of 40 digits', one(`{"dtype":"U8","shape":[${'9'.repeat(40)}],"data_offsets":[0,4]}`), /"t": shape has something other/],
    ['a product beyond 2^64', one('{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,4]}'), /takes more bytes than any file/],
    ['17 dimensions', one(`{"dtype":"F32","shape":[${Array(17).fill(1).join()}],"data_offsets":[0,4]}`), /more than 16 numbers/],
    ['nested shapes', one(`{"dtype":"F32","shape":${'['.repeat(100_000)},`), /"t": shape has something other/],
    ['nested objects', makeSafetensors('{"a":'.repeat(100_000), data), /tensor "a": unexpected or repeated field "a"/],
    ['a shape that is not the span', one('{"dtype":"F32","shape":[2],"data_offsets":[0,4]}'), /"t": F32 of shape \[2\] takes 8 bytes, data_offsets span 4/],
    ['a dtype that is not the span', one('{"dtype":"F16","shape":[1],"data_offsets":[0,4]}'), /takes 2 bytes, data_offsets span 4/],
    ['reversed offsets', one('{"dtype":"F32","shape":[1],"data_offsets":[4,0]}'), /"t": data_offsets \[4, 0\] are reversed/],
    ['negative offsets', one('{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}'), /"t": data_offsets has something other/],
    ['one offset', one('{"dtype":"F32","shape":[1],"data_offsets":[0]}'), /"t": data_offsets are not two numbers/],
    ['three offsets', one('{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}'), /"t": data_offsets has more than 2 numbers/],
    ['offsets beyond the file', one('{"dtype":"F32","shape":[1],"data_offsets":[4,8]}'), /truncated in tensor "t": needs/],
    ['offsets of 2^53', one('{"dtype":"F32","shape":[1],"data_offsets":[9007199254740988,9007199254740992]}'), /"t": data_offsets has/],
    ['overlapping tensors', two([0, 3], [2, 4], 4), /tensors "a" and "b" overlap/],
    ['the same bytes twice', two([0, 2], [0, 2], 2), /tensors "a" and "b" overlap/],
    ['a gap', two([0, 1], [3, 4], 4), /tensors take 2 bytes, but 4 follow the header/],
    ['bytes that belong to no tensor', two([0, 1], [1, 2], 4), /tensors take 2 bytes, but 4 follow/],
    ['metadata that is no object', makeSafetensors('{"__metadata__":[]}', new Uint8Array(0)), /__metadata__: expected \{/],
    ['metadata that is no text', makeSafetensors('{"__metadata__":{"a":1}}', new Uint8Array(0)), /__metadata__: expected "/],
    ['a metadata key twice', makeSafetensors('{"__metadata__":{"a":"","a":""}}', new Uint8Array(0)), /key "a" appears twice/],
    ['metadata twice', makeSafetensors('{"__metadata__":{},"__metadata__":{}}', new Uint8Array(0)), /__metadata__ appears twice/],
  ])('%s', (_, bytes, right) => {
    expect(refusal(bytes)).toMatch(right);
  });

  it('a tensor that appears twice, also when spelt with an escape', () => {
    const entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}';
    expect(refusal(makeSafetensors(`{"t":${entry},"\\u0074":${entry}}`, float32Bytes(1)))).toMatch(
      /tensor "t": appears twice/,
    );
  });

  it('bytes that are not UTF-8', () => {
    const bytes = makeSafetensors('{"tt":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', new Uint8Array(1));
    bytes[10] = 0xff;
    expect(refusal(bytes)).toMatch(/a string is not UTF-8/);
  });

  it('a file cut at any byte', () => {
    for (let length = 0; length < good.length; length++) {
      expect(refusal(good.subarray(0, length))).toMatch(/FILE is truncated.*: needs \d+ bytes, has \d+/);
    }
  });

  it('a header whose length alone would fill the memory, before it allocates', () => {
    fs.writeFileSync(file, makeSafetensors(header, data, 90 * 2 ** 20));
    expect(largestAllocation(() => calmError(() => openSafetensors(file)))).toBe(8);
  });

  it('1,200 damaged headers in a clear word, within their size', () => {
    const { opened, refused } = fuzz(file, good, good.length - data.length, 1200, Random.seed(11), openSafetensors);
    expect(opened).toBeGreaterThan(5);
    expect(refused).toBeGreaterThan(600);
  });
});

describe('writeSafetensors', () => {
  const read = (from: string) => {
    const opened = openSafetensors(from);
    const tensors = [...opened.names()].map((name) => [name, opened.shape(name), Array.from(opened.float32(name))]);
    opened.close();
    return { tensors, metadata: Object.fromEntries(opened.metadata) };
  };

  it('gives back what was written, whatever the names', () => {
    const out = path.join(folder, 'written.safetensors');
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string({ unit: 'grapheme' }).filter((name) => name !== '__metadata__'),
          fc.array(fc.float(), { maxLength: 5 }),
          { noNullPrototype: true },
        ),
        fc.dictionary(fc.string(), fc.string({ unit: 'grapheme' }), { noNullPrototype: true }),
        (tensors, metadata) => {
          const made = Object.entries(tensors).map(
            ([name, values]) => [name, { shape: [values.length, 1], data: Float32Array.from(values) }] as const,
          );
          writeSafetensors(out, Object.fromEntries(made), metadata);
          const back = read(out);
          expect(new Map(back.tensors.map(([name, ...rest]) => [name, rest]))).toEqual(
            new Map(made.map(([name, { shape, data }]) => [name, [shape, Array.from(data)]])),
          );
          expect(back.metadata).toEqual(metadata);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('writes these bytes', () => {
    const out = path.join(folder, 'bytes.safetensors');
    const view = Float32Array.of(9, 1, 2, 9).subarray(1, 3);
    writeSafetensors(
      out,
      { b: { shape: [], data: Float32Array.of(3) }, a: { shape: [1, 2], data: view } },
      { format: 'pt' },
    );
    const text =
      '{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}';
    const padded = text.padEnd(Math.ceil(text.length / 8) * 8);
    expect(fs.readFileSync(out)).toEqual(makeSafetensors(padded, float32Bytes(1, 2, 3)));
  });

  it('refuses a shape that is not the data, and leaves the old file alone', () => {
    const out = path.join(folder, 'kept.safetensors');
    writeSafetensors(out, { a: { shape: [1], data: Float32Array.of(1) } });
    const bad = { a: { shape: [2], data: Float32Array.of(1) } };
    expect(calmError(() => writeSafetensors(out, bad)).message).toMatch(
      /tensor "a" of shape \[2\] cannot hold 1 numbers/,
    );
    const reserved = { __metadata__: { shape: [1], data: Float32Array.of(1) } };
    expect(calmError(() => writeSafetensors(out, reserved)).message).toMatch(/__metadata__/);
    expect(read(out).tensors).toEqual([['a', [1], [1]]]);
  });
});

describe('openCheckpoint', () => {
  let made = 0;
  /** A checkpoint folder with the given files; objects are written as JSON. */
  function checkpoint(files: Record<string, Buffer | object | string>): string {
    const where = path.join(folder, `checkpoint-${++made}`);
    fs.mkdirSync(where);
    for (const [name, content] of Object.entries(files)) {
      const text = Buffer.isBuffer(content) || typeof content === 'string' ? content : JSON.stringify(content);
      fs.writeFileSync(path.join(where, name), text);
    }
    return where;
  }
  const single = (name: string, value: number) =>
    makeSafetensors({ [name]: { dtype: 'F32', shape: [1], data_offsets: [0, 4] } }, float32Bytes(value));
  const index = (weight_map: unknown) => ({ metadata: { total_size: 8 }, weight_map });
  const INDEX = 'model.safetensors.index.json';
  const refused = (where: string) => calmError(() => openCheckpoint(where)).line.replaceAll(where, 'FOLDER');

  it('reads one file or shards', () => {
    const one = openCheckpoint(checkpoint({ 'model.safetensors': single('a', 1), 'config.json': {} }));
    expect(Array.from(one.float32('a'))).toEqual([1]);
    one.close();
    const sharded = openCheckpoint(
      checkpoint({
        '1.safetensors': single('a', 1),
        '2.safetensors': single('b', 2),
        [INDEX]: index({ a: '1.safetensors', b: '2.safetensors' }),
      }),
    );
    expect([...sharded.names()]).toEqual(['a', 'b']);
    expect(sharded.shape('b')).toEqual([1]);
    expect([...sharded.float32('a'), ...sharded.float32('b')]).toEqual([1, 2]);
    expect(calmError(() => sharded.float32('c')).message).toMatch(/no tensor "c"/);
    sharded.close();
    expect(calmError(() => sharded.float32('a')).message).toMatch(/closed/);
  });

  it.each([
    '../outside.safetensors',
    '/etc/x.safetensors',
    'sub/x.safetensors',
    '..\\x.safetensors',
    'C:x.safetensors',
    '..',
    '',
    'x\0.safetensors',
    'config.json',
    3,
    null,
    ['x.safetensors'],
  ])('refuses a shard named %j', (shard) => {
    fs.writeFileSync(path.join(folder, 'outside.safetensors'), single('a', 1));
    const where = checkpoint({ [INDEX]: index({ a: shard }) });
    expect(refused(where)).toMatch(
      /index.json: tensor "a" is said to be in .*not the name of a .safetensors file in the same/,
    );
  });

  it('names the shard or the tensor that is missing', () => {
    const map = index({ a: '1.safetensors', b: '1.safetensors', c: '2.safetensors' });
    expect(refused(checkpoint({ [INDEX]: map }))).toMatch(/cannot read FOLDER\/1.safetensors: does not exist/);
    const where = checkpoint({ [INDEX]: map, '1.safetensors': single('a', 1) });
    expect(refused(where)).toMatch(
      /FOLDER\/1.safetensors has no tensor "b", but FOLDER\/model.safetensors.index.json says/,
    );
  });

  it.each<[string, string, RegExp]>([
    ['not JSON', '{"weight_map":', /index.json is not JSON/],
    ['no object', '[]', /has no weight_map/],
    ['without a map', '{}', /has no weight_map/],
    ['a map that is a list', '{"weight_map":[]}', /has no weight_map/],
    ['empty', '', /is not JSON/],
  ])('refuses an index that is %s', (_, text, right) => {
    expect(refused(checkpoint({ [INDEX]: text }))).toMatch(right);
  });

  it('refuses an index of more than 32 MiB without reading it', () => {
    const where = checkpoint({ [INDEX]: '{' });
    fs.truncateSync(path.join(where, INDEX), 33 * 2 ** 20);
    expect(largestAllocation(() => expect(refused(where)).toMatch(/beyond the 32 MiB/))).toBeLessThan(1000);
  });

  it.each(['gptq', 'awq', 'bitsandbytes', 'new\nmethod'])('refuses weights quantised by %j', (quant_method) => {
    const config = { quantization_config: { quant_method, bits: 4 } };
    const where = checkpoint({ 'config.json': config, 'model.safetensors': single('a', 1) });
    const name = JSON.stringify(quant_method).replace('\\', '\\\\');
    expect(refused(where)).toMatch(new RegExp(`FOLDER/config.json: .* quantised by ${name}, .*; use the unquantised`));
  });

  it('says what a folder without safetensors has', () => {
    expect(refused(checkpoint({ 'pytorch_model.bin': '' }))).toMatch(
      /neither .*; save pytorch_model.bin with safe_serial/,
    );
    expect(refused(checkpoint({}))).toMatch(/neither .*; name a folder in Hugging Face layout/);
    expect(refused(path.join(folder, 'nowhere'))).toMatch(/cannot read FOLDER: does not exist/);
  });

  it.skipIf(process.platform === 'win32')('does not wait for a pipe', () => {
    const where = checkpoint({});
    execFileSync('mkfifo', [path.join(where, 'model.safetensors')]);
    expect(refused(where)).toMatch(/it is not a file/);
  });
});

const tiny = path.join(__dirname, '../../../shared/oracle/tiny/public');

describe.skipIf(!fs.existsSync(tiny))('openCheckpoint on shared/oracle/tiny', () => {
  it.each([
    ['llama_bf16_sharded', 'BF16'],
    ['llama_f16', 'F16'],
    ['llama3_untied', 'F32'],
  ])('reads %s: every shape of its config, finite weights, %s', (name, dtype) => {
    const where = path.join(tiny, name);
    const config = JSON.parse(fs.readFileSync(path.join(where, 'config.json'), 'utf8')) as Record<string, number>;
    const source = openCheckpoint(where);
    const layer = 'model.layers.1.';
    expect(source.shape('model.embed_tokens.weight')).toEqual([config['vocab_size'], config['hidden_size']]);
    expect(source.shape(`${layer}mlp.up_proj.weight`)).toEqual([config['intermediate_size'], config['hidden_size']]);
    expect(source.shape(`${layer}self_attn.k_proj.weight`)).toEqual([16, 32]);
    let total = 0;
    for (const tensor of source.names()) {
      const values = source.float32(tensor);
      expect(values.every(Number.isFinite)).toBe(true);
      total += values.length;
    }
    source.close();
    const shards = fs.readdirSync(where).filter((f) => /^model.*\.safetensors$/.test(f));
    const opened = shards.map((f) => openSafetensors(path.join(where, f)));
    const entries = opened.flatMap((shard) => [...shard.tensors.values()]);
    expect(new Set(entries.map((e) => e.dtype))).toEqual(new Set([dtype]));
    expect(entries.reduce((n, e) => n + e.byteLength, 0)).toBe(total * (dtype === 'F32' ? 4 : 2));
    opened.forEach((shard) => shard.close());
  });
});
