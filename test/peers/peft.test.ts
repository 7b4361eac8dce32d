import { execFileSync } from 'node:child_process';
import * as path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { readJson, writeFile } from '../../src/base/files';
import { startEngine, tf } from '../../src/engine/backend';
import { Random } from '../../src/engine/random';
import { map } from '../../src/engine/tree';
import {
  createAdapter,
  PAPER_LORA,
  readAdapter,
  trainingPass,
  unembed,
  writeAdapter,
  type Adapter,
} from '../../src/model';
import { pack } from '../../src/model/packed';
import { writeTinyFolder } from '../evaluate/tiny-folder';
import { loadWeights } from '../model/load-weights';
import { temporaryFolder } from '../model/make-files';
import { maxAbsDifference } from '../shared';

/** A Python that has torch, transformers and peft: CALM_PEER_PYTHON=VENV/bin/python npx vitest run test/peers */
const PYTHON = process.env['CALM_PEER_PYTHON'] ?? '';
const folder = temporaryFolder();
beforeAll(startEngine);

const texts = [
  [1, 2, 3, 100, 7],
  [256, 50],
  [9, 8, 7, 6, 5, 4, 3, 2, 1],
];

function lastLogits(model: ReturnType<typeof loadWeights>, adapter: Adapter): Float32Array {
  const packed = pack(texts.map((ids) => ({ ids })));
  const last = Int32Array.from(packed.starts, (start, row) => start + texts[row]!.length - 1);
  const pass = trainingPass(model, adapter, packed, last, { forwardOnly: true });
  return unembed(model.parameters, pass.hidden).dataSync<'float32'>();
}

// The other way round as well: what PEFT saves, we load.
it.skipIf(!PYTHON).each([false, true])(
  'PEFT gets the same logits from our adapter, and we from its (rank-stabilised: %s; needs CALM_PEER_PYTHON)',
  (rankStabilised) => {
    const where = writeTinyFolder(path.join(folder, `model-${rankStabilised}`));
    const model = loadWeights(where);
    const random = Random.seed(2);
    const made = createAdapter(model.config, { ...PAPER_LORA, rank: 4, alpha: 6, rankStabilised }, random);
    const blocks = map(made.blocks, (leaf) =>
      tf.tensor(
        Float32Array.from({ length: leaf.size }, () => 0.2 * random.normal()),
        leaf.shape,
      ),
    );
    const at = (name: string) => path.join(folder, `${name}-${rankStabilised}`);
    const adapter = { ...made, blocks };
    writeAdapter(at('ours'), adapter, model.config, 'tiny');
    writeFile(at('ids'), JSON.stringify(texts));
    const peer = (adapterFolder: string, ...rest: string[]) => {
      const script = path.join(__dirname, 'peft_logits.py');
      execFileSync(PYTHON, [script, where, adapterFolder, at('ids'), at('logits'), ...rest], { stdio: 'ignore' });
      return (readJson(at('logits')) as number[][]).flat();
    };
    expect(maxAbsDifference(lastLogits(model, adapter), peer(at('ours')))).toBeLessThan(1e-4);
    const theirs = peer(at('ours'), '--save', at('theirs'));
    const read = readAdapter(at('theirs'), model.config);
    expect(read.config).toEqual(adapter.config);
    expect(maxAbsDifference(lastLogits(model, read), theirs)).toBeLessThan(1e-4);
    expect(maxAbsDifference(lastLogits(model, read), lastLogits(model, adapter))).toBeGreaterThan(1e-2);
  },
  120_000,
);
