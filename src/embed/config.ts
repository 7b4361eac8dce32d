import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { CalmError } from '../base/errors';
import { readJson } from '../base/files';
import { parsed, refuse } from './check';

/** What differs between BERT models. Widths in channels. */
export interface BertConfig {
  vocabSize: number;
  hiddenSize: number;
  intermediateSize: number;
  layers: number;
  heads: number;
  maxPositions: number;
  typeVocabSize: number;
  normEps: number;
}

const size = z.int().min(1);

const configJson = z.looseObject({
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  max_position_embeddings: size,
  type_vocab_size: size,
  layer_norm_eps: z.number().positive(),
});

/** What a field must say where it is there: with another value the vectors would be others. */
const ONLY: Readonly<Record<string, unknown>> = {
  hidden_act: 'gelu',
  position_embedding_type: 'absolute',
  is_decoder: false,
  add_cross_attention: false,
};

/** The configuration in a BERT model's `config.json`. @throws CalmError that names the field which is another model's */
export function bertConfig(file: string): BertConfig {
  const json = parsed(file, z.looseObject({}), readJson(file));
  if (json['model_type'] !== 'bert') refuse(file, 'model_type', json['model_type'], '"bert"');
  for (const [name, wanted] of Object.entries(ONLY)) {
    if ((json[name] ?? wanted) !== wanted) refuse(file, name, json[name], JSON.stringify(wanted));
  }
  const found = parsed(file, configJson, json);
  const { hidden_size: hiddenSize, num_attention_heads: heads } = found;
  if (hiddenSize % heads !== 0) {
    throw new CalmError(`${file}: ${heads} attention heads cannot share ${hiddenSize} channels evenly`);
  }
  return {
    vocabSize: found.vocab_size,
    hiddenSize,
    intermediateSize: found.intermediate_size,
    layers: found.num_hidden_layers,
    heads,
    maxPositions: found.max_position_embeddings,
    typeVocabSize: found.type_vocab_size,
    normEps: found.layer_norm_eps,
  };
}

/**
 * What sentence-transformers' own files in a folder say.
 * @returns `maxLength`, the token ids a text may have: its limit where there is one, else the model's positions
 * @throws CalmError when a text's vector is not the mean over its tokens alone, naming what it is instead
 */
export function sentenceConfig(folder: string, { maxPositions }: BertConfig): { maxLength: number } {
  expectMeanPooling(path.join(folder, '1_Pooling', 'config.json'));
  expectNoFurther(path.join(folder, 'modules.json'));
  const file = path.join(folder, 'sentence_bert_config.json');
  if (!fs.existsSync(file)) return { maxLength: maxPositions };
  const { max_seq_length, do_lower_case } = parsed(file, sentenceJson, readJson(file));
  if (do_lower_case) refuse(file, 'do_lower_case', true, 'false');
  const maxLength = max_seq_length ?? maxPositions;
  if (maxLength > maxPositions) {
    throw new CalmError(`${file}: max_seq_length ${maxLength} is beyond the ${maxPositions} positions of the model`);
  }
  return { maxLength };
}

const sentenceJson = z.object({ max_seq_length: size.nullish(), do_lower_case: z.boolean().nullish() });

function expectMeanPooling(file: string): void {
  const json = parsed(file, z.looseObject({}), readJson(file));
  const modes = Object.keys(json).filter((name) => name.startsWith('pooling_mode') && json[name] === true);
  if (modes.join() !== 'pooling_mode_mean_tokens') refuse(file, 'the pooling', modes, 'pooling_mode_mean_tokens alone');
}

/** Vectors are always normalised here, which changes no cosine; a layer after the pooling (`Dense`) would. */
function expectNoFurther(file: string): void {
  if (!fs.existsSync(file)) return;
  for (const { type } of parsed(file, z.array(z.object({ type: z.string() })), readJson(file))) {
    if (!/\.(Transformer|Pooling|Normalize)$/.test(type))
      refuse(file, 'a module', type, 'Transformer, Pooling or Normalize');
  }
}
