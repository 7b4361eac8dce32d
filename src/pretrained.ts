import * as fs from 'node:fs';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { CalmError } from './base/errors';
import { fileError, readJson, writeFile } from './base/files';
import { pick, unknownName } from './base/pick';
import { startProgress } from './base/progress';
import { startEngine, tf, type EngineInfo, type Tensor } from './engine/backend';
import { dispose } from './engine/tree';
import { renderChat, tokenizerFromFolder, tokenizerFromGguf, type ChatMessage, type Tokenizer } from './data';
import {
  configFromGguf,
  configFromHuggingFace,
  GGUF_NAMES,
  HUGGING_FACE_NAMES,
  loadParameters,
  openCheckpoint,
  openGguf,
  WEIGHT_FORMATS,
  writeCheckpoint,
  type Transformer,
  type WeightFormat,
} from './model';
import { PRESETS, presetFile } from './base/presets';

/** A model with its words: what evaluation and training work on. */
export interface LanguageModel extends Transformer {
  name: string;
  /** The file or folder it came from. */
  path: string;
  /** SHA-256 over the weight files. */
  hash: string;
  tokenizer: Tokenizer;
  engine: EngineInfo;
  /** How its matrices are held. */
  weights: WeightFormat;
  /** What was trained on top, where something was. */
  tuning?: { adapterHash: string; head: boolean };
  /** Frees the weights. */
  dispose(): void;
}

/**
 * Loads a model: a preset's name, a `.gguf` file, or a folder in Hugging Face layout (`config.json`, `tokenizer.json`,
 * `*.safetensors`). Shows progress.
 * @param options.weights how its matrices are held, see `WEIGHT_FORMATS`
 * @throws CalmError with cause and remedy when it is unknown, absent, damaged or of another architecture
 */
export async function loadModel(
  nameOrPath: string,
  { weights = 'float32' }: { weights?: WeightFormat } = {},
): Promise<LanguageModel> {
  pick('way of holding weights', weights, Object.fromEntries(WEIGHT_FORMATS.map((name) => [name, true])));
  const where = locate(nameOrPath);
  const engine = await startEngine();
  const hash = await hashFiles(weightFiles(where));
  const name = path.basename(nameOrPath).replace(/\.gguf$/i, '');
  const loaded = withoutPadding(
    fs.statSync(where).isDirectory() ? fromFolder(where, name, weights) : fromGguf(where, name, weights),
  );
  return {
    ...loaded,
    name,
    path: where,
    hash,
    engine,
    weights,
    dispose: () => dispose(loaded.parameters),
  };
}

const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'];

/**
 * Writes a model, with the adapter that it may have merged in, as a folder in Hugging Face layout: `config.json`,
 * `model.safetensors` in float32 and its tokenizer's files.
 * @throws CalmError for a model that came from a GGUF file, whose tokenizer has no such files; one with a calibration head;
 *   or when the folder cannot be written
 */
export function saveModel(model: LanguageModel, folder: string): void {
  const files = fs.statSync(model.path).isDirectory()
    ? TOKENIZER_FILES.map((name) => path.join(model.path, name)).filter((file) => fs.existsSync(file))
    : [];
  if (files.length === 0) {
    throw new CalmError(`${model.path} has no tokenizer.json to go with the weights`, {
      remedy: "save a model that was loaded from a folder in Hugging Face's layout",
    });
  }
  writeCheckpoint(folder, model);
  for (const file of files) writeFile(path.join(folder, path.basename(file)), fs.readFileSync(file));
}

/** The tokenizer of a model, without its weights. @throws CalmError as `loadModel` */
export function loadTokenizer(nameOrPath: string): Tokenizer {
  const where = locate(nameOrPath);
  if (fs.statSync(where).isDirectory()) return tokenizerFromFolder(where);
  const gguf = openGguf(where);
  try {
    return tokenizerFromGguf(gguf.metadata, where);
  } finally {
    gguf.close();
  }
}

/**
 * The text of a conversation by the model's own chat template, ready to be encoded.
 * @throws CalmError when the model has no template, or the template refuses the messages
 */
export function renderMessages(
  { tokenizer }: Pick<LanguageModel, 'tokenizer'>,
  messages: readonly ChatMessage[],
  addGenerationPrompt = true,
): string {
  const { chatTemplate, bosToken, eosToken } = tokenizer;
  if (chatTemplate === undefined) throw new CalmError('the model has no chat template', { remedy: 'use plain text' });
  return renderChat(chatTemplate, messages, { addGenerationPrompt, bosToken, eosToken });
}

function locate(nameOrPath: string): string {
  if (Object.hasOwn(PRESETS, nameOrPath)) {
    const file = presetFile(nameOrPath);
    if (fs.existsSync(file)) return file;
    throw new CalmError(`the model ${nameOrPath} is not here: ${file} does not exist`, { remedy: 'run "npm start"' });
  }
  if (fs.existsSync(nameOrPath)) {
    const kind = fs.statSync(nameOrPath);
    if (kind.isFile() || kind.isDirectory()) return path.resolve(nameOrPath);
    // A pipe or device may never end.
    throw new CalmError(`cannot read ${nameOrPath}: it is not a file`, { remedy: 'name a .gguf file or a folder' });
  }
  if (/[\\/]|\.gguf$/i.test(nameOrPath))
    throw fileError(Object.assign(new Error(), { code: 'ENOENT' }), nameOrPath, 'read');
  throw unknownName('model', nameOrPath, Object.keys(PRESETS));
}

function weightFiles(where: string): string[] {
  if (!fs.statSync(where).isDirectory()) return [where];
  const files = fs
    .readdirSync(where)
    .filter((f) => f.endsWith('.safetensors'))
    .sort();
  return files.map((f) => path.join(where, f));
}

async function hashFiles(files: string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) {
    try {
      for await (const chunk of fs.createReadStream(file, { highWaterMark: 2 ** 20 })) hash.update(chunk as Buffer);
    } catch (error) {
      throw fileError(error, file, 'read');
    }
  }
  return hash.digest('hex');
}

type Loaded = Pick<LanguageModel, 'config' | 'parameters' | 'tokenizer'>;

function fromGguf(file: string, name: string, weights: WeightFormat): Loaded {
  const gguf = openGguf(file);
  try {
    const tied = !gguf.tensors.has(GGUF_NAMES.unembedding);
    const config = configFromGguf(gguf.metadata, file, tied);
    const tokenizer = tokenizerFromGguf(gguf.metadata, file);
    return {
      config,
      tokenizer,
      parameters: withProgress(name, (on) => loadParameters(gguf, config, GGUF_NAMES, on, weights)),
    };
  } finally {
    gguf.close();
  }
}

function fromFolder(folder: string, name: string, weights: WeightFormat): Loaded {
  const configFile = path.join(folder, 'config.json');
  const config = configFromHuggingFace(readJson(configFile) as Record<string, unknown>, configFile);
  const tokenizer = tokenizerFromFolder(folder);
  const source = openCheckpoint(folder);
  try {
    return {
      config,
      tokenizer,
      parameters: withProgress(name, (on) => loadParameters(source, config, HUGGING_FACE_NAMES, on, weights)),
    };
  } finally {
    source.close();
  }
}

/** Cuts the vocabulary's padding rows, which no text has: left in, they would take probability from real tokens. */
function withoutPadding(loaded: Loaded): Loaded {
  const { config, parameters, tokenizer } = loaded;
  const { vocabSize } = tokenizer;
  if (config.vocabSize <= vocabSize) return loaded;
  const cut = (table: Tensor) => {
    const kept = tf.slice(table, [0, 0], [vocabSize, -1]);
    table.dispose();
    return kept;
  };
  const { embedding, unembedding } = parameters;
  const tables = { embedding: cut(embedding), ...(unembedding && { unembedding: cut(unembedding) }) };
  return { tokenizer, config: { ...config, vocabSize }, parameters: { ...parameters, ...tables } };
}

function withProgress<T>(name: string, load: (on: (done: number, total: number) => void) => T): T {
  let progress: ReturnType<typeof startProgress> | undefined;
  const result = load((done, total) => {
    progress ??= startProgress(`loading ${name}`, total);
    progress.update(done);
  });
  progress?.stop();
  return result;
}
