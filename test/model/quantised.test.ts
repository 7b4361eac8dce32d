import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readJson } from '../../src/base/files';
import { startEngine, tf } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, leaves, map } from '../../src/engine/tree';
import {
  configFromHuggingFace,
  createAdapter,
  fuse,
  HUGGING_FACE_NAMES,
  lastLogits,
  loadParameters,
  openCheckpoint,
  PAPER_LORA,
  trainingPass,
  unfuse,
  type Transformer,
  type WeightFormat,
} from '../../src/model';
import { dequantiseNf4, quantiseNf4 } from '../../src/model/nf4';
import { pack } from '../../src/model/packed';
import { openSafetensors, writeSafetensors } from '../../src/model/safetensors';
import { writeTinyFolder } from '../evaluate/tiny-folder';
import { maxAbsDifference } from '../shared';
import { temporaryFolder } from './make-files';

const where = writeTinyFolder(path.join(temporaryFolder(), 'tiny'));
beforeAll(startEngine);

function load(folder: string, weights: WeightFormat): Transformer {
  const file = path.join(folder, 'config.json');
  const config = configFromHuggingFace(readJson(file) as Record<string, unknown>, file);
  const source = openCheckpoint(folder);
  const parameters = loadParameters(source, config, HUGGING_FACE_NAMES, undefined, weights);
  source.close();
  return { config, parameters };
}

const texts = [[1, 2, 3, 100], [5], [7, 8, 9]];
const logits = (model: Transformer) => lastLogits(model, texts).flatMap((row) => [...row]);

function adapterOf({ config }: Transformer) {
  const made = createAdapter(config, { ...PAPER_LORA, rank: 2, dropout: 0 }, Random.seed(1));
  const random = Random.seed(2);
  const filled = map(made.blocks, (leaf) =>
    tf.tensor(
      Float32Array.from({ length: leaf.size }, () => 0.2 * random.normal()),
      leaf.shape,
    ),
  );
  return { config: made.config, blocks: filled };
}

function gradients(model: Transformer) {
  const packed = pack(texts.map((ids) => ({ ids })));
  const pass = trainingPass(model, adapterOf(model), packed, Int32Array.of(3, 4, 7));
  return leaves(pass.backward(tf.onesLike(pass.hidden))).flatMap(([, leaf]) => [...leaf.dataSync()]);
}

describe('weights held quantised', () => {
  it('as stored are the same model, to the bit, and so are the gradients through it', () => {
    const [plain, stored] = [load(where, 'float32'), load(where, 'stored')];
    expect(logits(stored)).toEqual(logits(plain));
    expect(gradients(stored)).toEqual(gradients(plain));
    expect(leaves(stored.parameters).length).toBeLessThan(leaves(plain.parameters).length);
  });

  it('as NF4 are the model whose matrices went through NF4 and back', () => {
    const rounded = `${where}-rounded`;
    fs.cpSync(where, rounded, { recursive: true });
    const source = openSafetensors(path.join(where, 'model.safetensors'));
    const tensors = Object.fromEntries(
      [...source.names()].map((name) => {
        const values = source.float32(name);
        const data = name.includes('_proj') ? dequantiseNf4(quantiseNf4(values)) : values;
        return [name, { shape: source.shape(name), data }];
      }),
    );
    source.close();
    writeSafetensors(path.join(rounded, 'model.safetensors'), tensors);
    expect(logits(load(where, 'nf4'))).toEqual(logits(load(rounded, 'float32')));
    expect(gradients(load(where, 'nf4'))).toEqual(gradients(load(rounded, 'float32')));
    expect(maxAbsDifference(logits(load(where, 'nf4')), logits(load(where, 'float32')))).toBeGreaterThan(1e-3);
  });

  it.each(['float32', 'stored'] as const)(
    'fused and unfused: the adapted model, and the plain one again (%s)',
    (form) => {
      const model = load(where, form);
      const adapter = adapterOf(model);
      const fused = { ...model, parameters: fuse(model, adapter) };
      const packed = pack(texts.map((ids) => ({ ids })));
      const pass = trainingPass(model, adapter, packed, Int32Array.of(3, 4, 7), { forwardOnly: true });
      const right = tf.matMul(pass.hidden, model.parameters.unembedding ?? model.parameters.embedding, false, true);
      expect(maxAbsDifference(logits(fused), right.dataSync())).toBeLessThan(1e-5);
      expect(maxAbsDifference(logits(fused), logits(model))).toBeGreaterThan(1e-2);
      const back = { ...model, parameters: unfuse(fused, adapter) };
      expect(maxAbsDifference(logits(back), logits(model))).toBeLessThan(1e-5);
    },
  );

  it('leave nothing behind', async () => {
    const kept = await tensorsKept(() => {
      const model = load(where, 'nf4');
      logits(model);
      dispose(model.parameters);
    });
    expect(kept).toBe(0);
  });
});
