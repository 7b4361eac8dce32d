import * as path from 'node:path';
import { z } from 'zod';
import { CalmError } from '../base/errors';
import { makeFolder, readJson, toJson, writeFile } from '../base/files';
import { tf, type Tensor2D } from '../engine/backend';
import { quoted } from './byte-source';
import type { ModelConfig } from './config';
import { HUGGING_FACE_PARTS } from './load';
import { checkLora, targetShape, type Adapter, type AdapterBlock, type LowRank } from './lora';
import { deinterleave, interleave } from './rotary-layout';
import { openSafetensors, writeSafetensors } from './safetensors';
import { TARGETS, type Target } from './targets';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';

/** `self_attn.q_proj` and so on. */
const moduleOf = (target: Target) => HUGGING_FACE_PARTS[target];
const tensorName = (block: number, target: Target, matrix: 'A' | 'B') =>
  `base_model.model.model.layers.${block}.${moduleOf(target)}.lora_${matrix}.weight`;

/** What of PEFT's configuration bears on the outputs; other keys are defaults that change nothing. */
const PEFT_CONFIG = z.object({
  peft_type: z.literal('LORA', { error: 'only LoRA adapters can be read' }),
  r: z.int().positive(),
  lora_alpha: z.number().positive(),
  lora_dropout: z.number().min(0).max(1).default(0),
  use_rslora: z.boolean().default(false),
  bias: z.literal('none', { error: 'adapters with biases are not supported' }).default('none'),
  use_dora: z.literal(false, { error: 'DoRA is not supported' }).default(false),
  fan_in_fan_out: z.literal(false, { error: 'transposed layers are not supported' }).default(false),
  rank_pattern: noEntries('rank_pattern'),
  alpha_pattern: noEntries('alpha_pattern'),
  modules_to_save: noEntries('modules_to_save'),
});

function noEntries(name: string) {
  return z
    .union([z.record(z.string(), z.unknown()), z.array(z.unknown()), z.null()])
    .optional()
    .refine((value) => !value || Object.keys(value).length === 0, { error: `${name} is not supported` });
}

/**
 * Reads a LoRA adapter in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`. The caller disposes of
 * its blocks.
 * @throws CalmError naming the file and what of it is missing, of another shape (another model, another rank), or
 * something this does not support
 */
export function readAdapter(folder: string, config: ModelConfig): Adapter {
  const configFile = path.join(folder, CONFIG);
  const parsed = PEFT_CONFIG.safeParse(readJson(configFile));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new CalmError(`${configFile}: ${issue!.path.join('.')}: ${issue!.message}`, {
      remedy: 'read a LoRA adapter as PEFT writes it',
    });
  }
  const { r: rank, lora_alpha: alpha, lora_dropout: dropout, use_rslora: rankStabilised } = parsed.data;
  const file = openSafetensors(path.join(folder, WEIGHTS));
  const left = new Set(file.names());
  const read = (name: string, shape: [number, number]): Tensor2D => {
    const found = file.shape(name);
    if (found.join() !== shape.join()) {
      throw new CalmError(
        `${file.path}: ${name} is [${found.join(', ')}], the model and the rank say [${shape.join(', ')}]`,
        {
          remedy: 'use the model that the adapter was trained on',
        },
      );
    }
    left.delete(name);
    return tf.tensor2d(file.float32(name), shape);
  };
  let blocks: AdapterBlock[] = [];
  try {
    blocks = tf.tidy(() =>
      Array.from({ length: config.layers }, (_, i) => {
        const present = TARGETS.filter((t) => left.has(tensorName(i, t, 'A')) || left.has(tensorName(i, t, 'B')));
        return Object.fromEntries(
          present.map((target): [Target, LowRank] => {
            const { inputs, outputs } = targetShape(config, target);
            const a = read(tensorName(i, target, 'A'), [rank, inputs]);
            const b = read(tensorName(i, target, 'B'), [outputs, rank]);
            return [target, { a, b: isRotary(target) ? interleave(b, config.headDim) : b }];
          }),
        );
      }),
    );
    const [unknown] = left;
    if (unknown !== undefined) {
      throw new CalmError(`${file.path}: tensor ${quoted(unknown)} has no place in a ${config.layers}-block model`, {
        remedy: 'use the model that the adapter was trained on',
      });
    }
  } catch (error) {
    blocks.forEach((block) => Object.values(block).forEach(({ a, b }) => tf.dispose([a, b])));
    throw error;
  } finally {
    file.close();
  }
  const targets = TARGETS.filter((target) => blocks.some((block) => block[target]));
  const lora = { rank, alpha, dropout, rankStabilised, targets };
  checkLora(lora);
  return { config: lora, blocks };
}

/**
 * Writes an adapter in PEFT's format into a folder, each file whole or not at all.
 * @param base the name of the model it belongs to
 * @throws CalmError when the folder cannot be written
 */
export function writeAdapter(
  folder: string,
  { config: lora, blocks }: Adapter,
  config: ModelConfig,
  base: string,
): void {
  makeFolder(folder);
  const tensors: Record<string, { shape: number[]; data: Float32Array }> = {};
  blocks.forEach((block, i) => {
    for (const [target, { a, b }] of Object.entries(block) as [Target, LowRank][]) {
      const rows = isRotary(target) ? deinterleave(b, config.headDim) : b;
      tensors[tensorName(i, target, 'A')] = { shape: a.shape, data: a.dataSync<'float32'>() };
      tensors[tensorName(i, target, 'B')] = { shape: b.shape, data: rows.dataSync<'float32'>() };
      if (rows !== b) rows.dispose();
    }
  });
  writeSafetensors(path.join(folder, WEIGHTS), tensors, { format: 'pt' });
  const everywhere = lora.targets.every((target) => blocks.every((block) => block[target]));
  const modules = everywhere
    ? lora.targets.map((target) => moduleOf(target).split('.')[1]!)
    : blocks.flatMap((block, i) => (Object.keys(block) as Target[]).map((t) => `model.layers.${i}.${moduleOf(t)}`));
  const json = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: lora.dropout,
    use_rslora: lora.rankStabilised,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    target_modules: modules,
  };
  writeFile(path.join(folder, CONFIG), `${toJson(json, 2)}\n`);
}

const isRotary = (target: Target) => target === 'q' || target === 'k';
