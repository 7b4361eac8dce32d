import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../src/base/errors';
import { setQuiet } from '../src/base/progress';
import { tf } from '../src/engine/backend';
import { tensorsKept } from '../src/engine/leaks';
import { generate, lastLogits } from '../src/model';
import { loadModel, loadTokenizer, renderMessages } from '../src/pretrained';
import { logSoftmax } from '../src/metrics';
import { TINY_VOCAB, writeTinyFolder } from './evaluate/tiny-folder';
import { makeGguf, temporaryFolder } from './model/make-files';
import { HAS_SMOL, SMOL } from './shared';

const folder = temporaryFolder();
const tiny = writeTinyFolder(path.join(folder, 'tiny'), { chatTemplate: '{{ messages[0].content }}' });
beforeAll(() => setQuiet(true));

async function refusal(name: string): Promise<CalmError> {
  const before = tf.memory().numTensors;
  const error: unknown = await loadModel(name).catch((e: unknown) => e);
  if (!(error instanceof CalmError)) throw new Error(`${name} gave ${String(error)}`);
  expect(error.line).not.toContain('\n');
  expect(tf.memory().numTensors).toBe(before);
  return error;
}

/** A copy of the tiny folder with files changed or, for undefined, left out. */
function changed(name: string, files: Record<string, string | Uint8Array | undefined>): string {
  const copy = path.join(folder, name);
  fs.cpSync(tiny, copy, { recursive: true });
  for (const [file, content] of Object.entries(files)) {
    if (content === undefined) fs.rmSync(path.join(copy, file));
    else fs.writeFileSync(path.join(copy, file), content);
  }
  return copy;
}

/** `config.json` of the tiny folder with fields changed. */
function config(changes: object): string {
  return JSON.stringify({
    ...(JSON.parse(fs.readFileSync(path.join(tiny, 'config.json'), 'utf8')) as object),
    ...changes,
  });
}

describe('loadModel: a folder in Hugging Face layout', () => {
  it('has the weights, the words and the hash of the weights', async () => {
    const model = await loadModel(`${tiny}${path.sep}`);
    const bytes = fs.readFileSync(path.join(tiny, 'model.safetensors'));
    expect(model.hash).toBe(createHash('sha256').update(bytes).digest('hex'));
    expect([model.name, model.path]).toEqual(['tiny', tiny]);
    expect(model.config).toMatchObject({ vocabSize: TINY_VOCAB, layers: 1, maxPositions: 512 });
    expect(model.engine.version).not.toBe('');
    expect(model.tokenizer.decode(model.tokenizer.encode('Hello, Añb'))).toBe('Hello, Añb');
    const [logits] = lastLogits(model, [model.tokenizer.encode('Hello')]) as [Float32Array];
    expect(logits).toHaveLength(TINY_VOCAB);
    expect(logits.every(Number.isFinite)).toBe(true);
    model.dispose();
  });

  it('frees everything it holds, also when asked twice', async () => {
    const kept = await tensorsKept(async () => {
      const model = await loadModel(tiny);
      expect(tf.memory().numTensors).toBeGreaterThan(5);
      model.dispose();
      model.dispose();
    });
    expect(kept).toBe(0);
  });

  it('other weights have another hash', async () => {
    const [one, two] = [await loadModel(tiny), await loadModel(writeTinyFolder(path.join(folder, 'two'), { seed: 2 }))];
    expect(two.hash).not.toBe(one.hash);
    one.dispose();
    two.dispose();
  });

  it('gives the padding rows of the vocabulary no probability', async () => {
    const where = writeTinyFolder(path.join(folder, 'padded'), { padding: 38 });
    expect(await tensorsKept(async () => (await loadModel(where)).dispose())).toBe(0);
    const model = await loadModel(where);
    const ids = model.tokenizer.encode('Hello');
    const [logits] = lastLogits(model, [ids]) as [Float32Array];
    expect(logits).toHaveLength(TINY_VOCAB);
    expect(logSoftmax(logits).reduce((sum, lp) => sum + Math.exp(lp), 0)).toBeCloseTo(1, 6);
    const text = generate(model, [ids], { maxNewTokens: 40 })[0]![0]!.ids;
    expect(text.every((id) => id < TINY_VOCAB)).toBe(true);
    model.dispose();
  });

  it.each<[string, () => string, RegExp]>([
    ['no weights', () => changed('a', { 'model.safetensors': undefined }), /has neither model\.safetensors nor/],
    ['no config.json', () => changed('b', { 'config.json': undefined }), /config\.json: does not exist/],
    ['no tokenizer.json', () => changed('c', { 'tokenizer.json': undefined }), /tokenizer\.json: does not exist/],
    ['a config that is not JSON', () => changed('d', { 'config.json': '{' }), /config\.json is not JSON/],
    ['another architecture', () => changed('e', { 'config.json': config({ model_type: 'bert' }) }), /"bert"/],
    ['another shape', () => changed('f', { 'config.json': config({ hidden_size: 32 }) }), /configuration says/],
    ['a tokenizer without vocabulary', () => changed('g', { 'tokenizer.json': '{"model":{}}' }), /vocab/],
    ['weights cut short', () => changed('h', { 'model.safetensors': fs.readFileSync(path.join(tiny, 'model.safetensors')).subarray(0, 999) }), /model\.safetensors/], // prettier-ignore
    ['weights that are text', () => changed('i', { 'model.safetensors': 'not weights at all' }), /model\.safetensors/],
    ['nothing in it', () => fs.mkdtempSync(path.join(folder, 'nothing-')), /config\.json: does not exist/],
  ])('refuses a folder with %s', async (_what, make, message) => {
    expect((await refusal(make())).line).toMatch(message);
  });
});

describe('loadModel: names and files', () => {
  it('suggests the nearest name', async () => {
    const error = await refusal('smollm2-135m-instruc');
    expect(error).toBeInstanceOf(UsageError);
    expect(error.line).toBe('unknown model "smollm2-135m-instruc"; did you mean smollm2-135m-instruct?');
  });

  it('takes what looks like a path for one', async () => {
    expect((await refusal(path.join(folder, 'absent'))).line).toMatch(/cannot read .*absent: does not exist/);
    expect((await refusal('absent.gguf')).line).toMatch(/cannot read absent\.gguf: does not exist/);
  });

  it('refuses a device, which may never end', async () => {
    expect((await refusal('/dev/zero')).line).toBe(
      'cannot read /dev/zero: it is not a file; name a .gguf file or a folder',
    );
  });

  it('refuses files that are no GGUF', async () => {
    const write = (name: string, content: string | Uint8Array) => {
      fs.writeFileSync(path.join(folder, name), content);
      return path.join(folder, name);
    };
    expect((await refusal(write('empty.gguf', ''))).line).toContain('empty.gguf');
    expect((await refusal(write('text.gguf', 'Hello, this is text, not a model at all.'))).line).toContain('text.gguf');
    expect((await refusal(write('bare.gguf', makeGguf({}).bytes))).line).toMatch(/architecture .*not supported/);
    const bert = makeGguf({ metadata: [['general.architecture', 'string', 'bert']] }).bytes;
    expect((await refusal(write('bert.gguf', bert))).line).toContain('architecture "bert" is not supported');
    expect((await refusal(path.join(tiny, 'config.json'))).line).toContain('config.json');
  });
});

describe('loadTokenizer and renderMessages', () => {
  it('are those of the model', () => {
    const tokenizer = loadTokenizer(tiny);
    expect(tokenizer.encode('A B')).toEqual([65, 259]);
    expect(renderMessages({ tokenizer }, [{ role: 'user', content: 'Hi' }])).toBe('Hi');
    expect(() => loadTokenizer('tiny')).toThrow(UsageError);
    const plain = loadTokenizer(writeTinyFolder(path.join(folder, 'plain')));
    expect(() => renderMessages({ tokenizer: plain }, [{ role: 'user', content: 'Hi' }])).toThrow('no chat template');
  });
});

describe.skipIf(!HAS_SMOL)('loadModel: SmolLM2 (needs the model)', () => {
  it('is the same by preset and by file', async () => {
    const kept = await tensorsKept(async () => {
      const [preset, file] = [await loadModel('smollm2-135m-instruct'), await loadModel(SMOL)];
      expect(preset).toMatchObject({ name: 'smollm2-135m-instruct', path: SMOL });
      expect(file.name).toBe('SmolLM2-135M-Instruct.Q4_1');
      expect(file.hash).toBe('b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53');
      expect(preset.hash).toBe(file.hash);
      const ids = preset.tokenizer.encode('The capital of France is');
      expect(file.tokenizer.encode('The capital of France is')).toEqual(ids);
      expect(lastLogits(file, [ids])).toEqual(lastLogits(preset, [ids]));
      preset.dispose();
      file.dispose();
    });
    expect(kept).toBe(0);
  });

  it('refuses a file cut short, in the header and in the weights', async () => {
    const handle = fs.openSync(SMOL, 'r');
    const start = Buffer.alloc(4_000_000);
    fs.readSync(handle, start);
    fs.closeSync(handle);
    for (const length of [30, 100_000, start.length]) {
      const file = path.join(folder, `cut-${length}.gguf`);
      fs.writeFileSync(file, start.subarray(0, length));
      expect((await refusal(file)).line).toMatch(/cut-\d+\.gguf is truncated.*; fetch it again/);
      expect(() => loadTokenizer(file)).toThrow('is truncated');
    }
  });
});
