import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { presetFile } from '../../src/base/presets';
import { applyTuning } from '../../src/calibrate/tuned';
import { identityHead } from '../../src/calibrate/head';
import { Random, startEngine, tree } from '../../src/engine';
import {
  createAdapter,
  lastLogits,
  openCheckpoint,
  PAPER_LORA,
  randomParameters,
  writeCheckpoint,
  type Transformer,
} from '../../src/model';
import { loadModel, saveModel } from '../../src/pretrained';
import { writeTinyFolder } from '../evaluate/tiny-folder';
import { temporaryFolder } from './make-files';
import { tinyModel } from './tiny-model';

const folder = temporaryFolder();
const at = (name: string) => path.join(folder, name);
beforeAll(async () => {
  await startEngine();
  writeTinyFolder(at('tiny'));
});

describe('a model that is written', () => {
  it('is what was read, tensor by tensor, with its tokenizer', async () => {
    const model = await loadModel(at('tiny'));
    saveModel(model, at('copy'));
    const [before, after] = [openCheckpoint(at('tiny')), openCheckpoint(at('copy'))];
    expect([...after.names()].sort()).toEqual([...before.names()].sort());
    for (const name of before.names()) {
      expect([after.shape(name), after.float32(name)], name).toEqual([before.shape(name), before.float32(name)]);
    }
    for (const opened of [before, after]) opened.close();
    const copy = await loadModel(at('copy'));
    expect(copy.config).toEqual(model.config);
    expect(copy.tokenizer.encode('What? B')).toEqual(model.tokenizer.encode('What? B'));
    for (const one of [model, copy]) one.dispose();
  });

  it('has an adapter merged in, and computes what they computed together', async () => {
    const model = await loadModel(at('tiny'));
    const adapter = createAdapter(model.config, { ...PAPER_LORA, rank: 2 }, Random.seed(3));
    const moved = tree.map(adapter.blocks, (leaf) => leaf.add(0.1));
    const tuned = applyTuning(model, { ...adapter, blocks: moved });
    saveModel(tuned, at('merged'));
    const merged = await loadModel(at('merged'));
    const logits = (one: typeof model) => [...lastLogits(one, [[1, 2, 3]])[0]!];
    const [expected, plain] = [logits(tuned), logits(model)];
    logits(merged).forEach((value, i) => expect(value).toBeCloseTo(expected[i]!, 4));
    expect(Math.max(...plain.map((value, i) => Math.abs(value - expected[i]!)))).toBeGreaterThan(0.1);
  });

  it('keeps grouped queries, tied embeddings and Llama 3’s rotary scaling', async () => {
    const ropeScaling = { factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 32 };
    const { config } = tinyModel(1, { tied: true, ropeScaling, vocabSize: 284 });
    const parameters = randomParameters(config, Random.seed(5));
    writeCheckpoint(at('random'), { config, parameters });
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) fs.copyFileSync(path.join(at('tiny'), name), path.join(at('random'), name)); // prettier-ignore
    const model = await loadModel(at('random'));
    expect(model.config).toEqual(config);
    const logits = (one: Transformer) => [...lastLogits(one, [[7, 8, 9]])[0]!];
    expect(logits(model)).toEqual(logits({ config, parameters }));
  });

  it('is refused with a head, or without the files of its tokenizer', async () => {
    const model = await loadModel(at('tiny'));
    const adapter = createAdapter(model.config, { ...PAPER_LORA, rank: 2 }, Random.seed(3));
    const tuned = applyTuning(model, adapter, identityHead(model.config.vocabSize));
    expect(() => saveModel(tuned, at('headed'))).toThrow('a calibration head cannot be part of a Llama checkpoint');
    expect(fs.existsSync(at('headed'))).toBe(false);
    const gguf = { ...model, path: presetFile('smollm2-135m-instruct') };
    if (fs.existsSync(gguf.path)) expect(() => saveModel(gguf, at('gguf'))).toThrow('has no tokenizer.json');
  });
});

it('random weights neither blow up nor fade: their logits have a spread of about 1', () => {
  const { config } = tinyModel(1, { hiddenSize: 64, headDim: 8, intermediateSize: 128 });
  const parameters = randomParameters(config, Random.seed(1));
  const logits = [...lastLogits({ config, parameters }, [[1, 2, 3, 4]])[0]!];
  const sd = Math.sqrt(logits.reduce((sum, x) => sum + x * x, 0) / logits.length);
  expect(sd).toBeGreaterThan(0.5);
  expect(sd).toBeLessThan(2);
});
