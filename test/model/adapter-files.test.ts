import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, leaves } from '../../src/engine/tree';
import { createAdapter, PAPER_LORA, readAdapter, writeAdapter, type Adapter } from '../../src/model';
import { openSafetensors, writeSafetensors } from '../../src/model/safetensors';
import { HAS_SHARED, SHARED } from '../shared';
import { temporaryFolder } from './make-files';
import { tinyModel } from './tiny-model';

beforeAll(startEngine);
const folder = temporaryFolder();

describe('adapter files', () => {
  it('an adapter comes back as it was written', () => {
    const { config } = tinyModel();
    const lora = { ...PAPER_LORA, rank: 2, alpha: 5, rankStabilised: true, targets: ['q', 'down'] as const };
    const made = createAdapter(config, lora, Random.seed(1));
    const adapter: Adapter = { ...made, blocks: [made.blocks[0]!, { q: made.blocks[1]!.q! }] };
    adapter.blocks[0]!.q!.b = tf.randomNormal(adapter.blocks[0]!.q!.b.shape);
    writeAdapter(path.join(folder, 'back'), adapter, config, 'tiny');
    const read = readAdapter(path.join(folder, 'back'), config);
    expect(read.config).toEqual(lora);
    const values = (tree: Adapter) => leaves(tree.blocks).map(([place, leaf]) => [place, [...leaf.dataSync()]]);
    expect(values(read)).toEqual(values(adapter));
    const json = JSON.parse(fs.readFileSync(path.join(folder, 'back', 'adapter_config.json'), 'utf8')) as object;
    expect(json).toMatchObject({
      target_modules: [
        'model.layers.0.self_attn.q_proj',
        'model.layers.0.mlp.down_proj',
        'model.layers.1.self_attn.q_proj',
      ],
      use_rslora: true,
    });
  });

  it('writing frees what it makes, and so does reading that fails', async () => {
    const { config } = tinyModel();
    const adapter = createAdapter(config, { ...PAPER_LORA, rank: 2 }, Random.seed(1));
    expect(await tensorsKept(() => writeAdapter(path.join(folder, 'leak'), adapter, config, 'tiny'))).toBe(0);
    expect(await tensorsKept(() => dispose(readAdapter(path.join(folder, 'leak'), config).blocks))).toBe(0);
    const other = { ...config, layers: 1 };
    expect(await tensorsKept(() => expect(() => readAdapter(path.join(folder, 'leak'), other)).toThrow())).toBe(0);
  });

  it.each([
    [
      'of another model',
      { hiddenSize: 32 },
      {},
      /q_proj.lora_A.weight is \[2, 16\], the model and the rank say \[2, 32\]/,
    ],
    [
      'of a deeper model',
      { layers: 1 },
      {},
      /tensor "base_model.model.model.layers.1.+ has no place in a 1-block model/,
    ],
    ['of another rank', {}, { r: 3 }, /lora_A.weight is \[2, 16\], the model and the rank say \[3, 16\]/],
    ['that is no LoRA', {}, { peft_type: 'IA3' }, /peft_type: only LoRA adapters can be read/],
    ['with DoRA', {}, { use_dora: true }, /use_dora: DoRA is not supported/],
    ['with ranks by layer', {}, { rank_pattern: { q_proj: 8 } }, /rank_pattern is not supported/],
    ['without a rank', {}, { r: undefined }, /adapter_config.json: r: /],
  ])('refuses one %s', (_what, model, changes, message) => {
    const { config } = tinyModel();
    const where = path.join(folder, 'wrong');
    writeAdapter(where, createAdapter(config, { ...PAPER_LORA, rank: 2 }, Random.seed(1)), config, 'tiny');
    const file = path.join(where, 'adapter_config.json');
    const json = { ...(JSON.parse(fs.readFileSync(file, 'utf8')) as object), ...changes };
    fs.writeFileSync(file, JSON.stringify(json));
    expect(() => readAdapter(where, { ...config, ...model })).toThrow(message);
  });

  it('names the matrix that has no partner, and the file that is not there', () => {
    const { config } = tinyModel();
    const where = path.join(folder, 'half');
    writeAdapter(where, createAdapter(config, { ...PAPER_LORA, rank: 2 }, Random.seed(1)), config, 'tiny');
    const name = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight';
    writeSafetensors(path.join(where, 'adapter_model.safetensors'), {
      [name]: { shape: [2, 16], data: new Float32Array(32) },
    });
    expect(() => readAdapter(where, config)).toThrow(/no tensor "base_model.+layers.0.self_attn.q_proj.lora_B.weight"/);
    fs.rmSync(path.join(where, 'adapter_model.safetensors'));
    expect(() => readAdapter(where, config)).toThrow(/adapter_model.safetensors/);
  });
});

it.skipIf(!HAS_SHARED)("PEFT's own adapter is written back to the byte (needs ../shared)", () => {
  const from = path.join(SHARED, 'oracle', 'tiny', 'public', 'llama3_untied', 'adapter');
  const config = {
    ...tinyModel().config,
    hiddenSize: 32,
    intermediateSize: 48,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headDim: 8,
  };
  writeAdapter(path.join(folder, 'same'), readAdapter(from, config), config, 'llama3_untied');
  const [right, got] = [from, path.join(folder, 'same')].map((f) =>
    openSafetensors(path.join(f, 'adapter_model.safetensors')),
  );
  expect([...got!.names()].sort()).toEqual([...right!.names()].sort());
  for (const name of right!.names()) expect(got!.read(name), name).toEqual(right!.read(name));
});
