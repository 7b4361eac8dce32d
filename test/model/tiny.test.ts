import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { dispose } from '../../src/engine/tree';
import { generate, lastLogits, scoreContinuations } from '../../src/model';
import { openSafetensors } from '../../src/model/safetensors';
import { HAS_SHARED, SHARED, sharedJson } from '../shared';
import { loadWeights } from './load-weights';
import { float64 } from './peft-names';
import { allLogits, tinyModel } from './tiny-model';

interface Case {
  id: string;
  dir: string;
  batches: { input_ids: number[][]; attention_mask: number[][] }[];
}

beforeAll(startEngine);

// Rope scaling (position 44 is beyond the original 32), tied weights, shared heads, shards, and every way of storing.
describe.skipIf(!HAS_SHARED)('tiny checkpoints against the reference in float64 (needs ../shared)', () => {
  it.each(['llama3_untied', 'llama3_tied', 'llama_bf16_sharded', 'llama_f16', 'tiny_llama_gguf_mixA'])(
    '%s: logits of every token within 1e-4',
    (id) => {
      const { dir, batches } = sharedJson<{ cases: Case[] }>('oracle', 'tiny', 'public.json').cases.find(
        (c) => c.id === id,
      )!;
      const folder = path.join(SHARED, 'oracle', 'tiny', dir);
      const model = loadWeights(id.includes('gguf') ? path.join(folder, 'model.gguf') : folder);
      const reference = openSafetensors(path.join(folder, 'ref.safetensors'));
      const { vocabSize } = model.config;
      batches.forEach(({ input_ids, attention_mask }, b) => {
        const lengths = attention_mask.map((mask) => mask.filter((m) => m === 1).length);
        const got = allLogits(
          model,
          input_ids.map((ids, row) => ({ ids: ids.slice(0, lengths[row]) })),
        );
        const right = float64(reference.read(`b${b}.logits_f64`));
        const width = input_ids[0]!.length;
        let token = 0;
        lengths.forEach((length, row) => {
          for (let position = 0; position < length; position++, token++) {
            for (let v = 0; v < vocabSize; v++) {
              const error = Math.abs(got[token * vocabSize + v]! - right[(row * width + position) * vocabSize + v]!);
              if (!(error < 1e-4))
                throw new Error(`batch ${b}, row ${row}, position ${position}, token ${v}: ${error}`);
            }
          }
        });
        expect(got.length).toBe(token * vocabSize);
      });
      reference.close();
      dispose(model.parameters);
    },
  );
});

describe('running a model', () => {
  it('frees all tensors it makes', async () => {
    const model = tinyModel();
    const sequences = [{ ids: [1, 2, 3], branches: [{ after: 2, ids: [5, 6] }] }, { ids: [7] }];
    const requests = [[4], [5, 6]].map((continuation) => ({ context: [1, 2, 3], continuation }));
    expect(await tensorsKept(() => allLogits(model, sequences))).toBe(0);
    expect(await tensorsKept(() => lastLogits(model, [[1, 2], [3]], Int32Array.of(1, 2)))).toBe(0);
    expect(await tensorsKept(() => scoreContinuations(model, requests))).toBe(0);
    expect(await tensorsKept(() => generate(model, [[1, 2], [3]], { maxNewTokens: 3 }))).toBe(0);
    expect(
      await tensorsKept(() => {
        expect(() => generate(model, [[1]], { maxNewTokens: 3, temperature: 1 })).toThrow('needs random streams');
      }),
    ).toBe(0);
    dispose(model.parameters);
  });

  it('refuses a token outside the vocabulary, and a prompt without tokens', async () => {
    const model = tinyModel();
    for (const id of [-1, 23]) {
      expect(() => lastLogits(model, [[1, id]])).toThrow(`token ${id} is not in the vocabulary of 23`);
    }
    expect(() => lastLogits(model, [[1], []])).toThrow('sequence 1 has no tokens');
    expect(() => scoreContinuations(model, [{ context: [], continuation: [1] }])).toThrow('request 0 has no context');
    expect(await tensorsKept(() => expect(() => allLogits(model, [{ ids: [99] }])).toThrow('99'))).toBe(0);
    dispose(model.parameters);
  });
});
