import * as fs from 'node:fs';
import * as path from 'node:path';
import { readJson, toJson, writeFile } from '../base/files';
import { cacheFolder } from '../base/presets';
import { train } from '../calibrate';
import { BYTE_TOKENS, byteTokenizer, type ChoiceQuestion, type Instruction } from '../data';
import { Random, tree } from '../engine';
import { randomParameters, writeCheckpoint, type ModelConfig } from '../model';
import { loadModel, saveModel } from '../pretrained';

/** Raised when the toy comes to mean something else. */
const VERSION = 1;
/** Says what the folder holds. */
const MARK = 'toy.json';

const COLOURS = ['red', 'green', 'blue', 'white'];
const URNS = [...'KLMNPRTX'];

/** A transformer of 70,000 parameters that reads bytes. */
const CONFIG: ModelConfig = {
  architecture: 'llama',
  vocabSize: BYTE_TOKENS,
  hiddenSize: 48,
  intermediateSize: 96,
  layers: 2,
  heads: 4,
  kvHeads: 4,
  headDim: 12,
  normEps: 1e-5,
  ropeTheta: 10_000,
  maxPositions: 512,
  tied: false,
};

/** How many questions of each kind; the model was made overconfident on those of `taught`. */
const SIZES = { taught: 384, train: 320, validation: 300, test: 1000 };

/**
 * A world small enough for minutes: eight urns, each with its own share of four colours, and questions which colour a
 * numbered draw gave. The answer is drawn from the urn, so that the honest confidence is known; the number says nothing,
 * but it can be learnt by heart. A small transformer is trained on few draws until it has done so, and is then as sure of
 * draws that it has never seen: overconfident for the reason that large models are.
 *
 * Writes `toy/` (the model), `train.jsonl`, `validation.jsonl`, `test.jsonl` (questions) and `instructions.jsonl`,
 * `instructions-validation.jsonl` (out of domain) into a folder, once.
 * @param options.folder by default in the project's cache
 * @returns the folder
 */
export async function makeToy({ folder, seed = 0 }: { folder?: string; seed?: number } = {}): Promise<string> {
  const where = path.resolve(folder ?? path.join(cacheFolder(), 'toy', String(seed)));
  const identity = toJson({ version: VERSION, seed });
  const isMade = () => fs.existsSync(path.join(where, MARK)) && toJson(readJson(path.join(where, MARK))) === identity;
  if (isMade()) return where;
  // Made aside, so that two processes at once do not write into each other's.
  const aside = `${where}.${process.pid}`;
  const at = (name: string) => path.join(aside, name);
  const random = Random.seed(seed);
  const urns = URNS.map((name) => ({ name, shares: sharesOf(random.stream(`urn ${name}`)) }));
  const rows = (name: string, all: readonly object[]) => {
    writeFile(at(`${name}.jsonl`), all.map((row) => `${toJson(row)}\n`).join(''));
    return at(`${name}.jsonl`);
  };
  const questions = (name: keyof typeof SIZES) => {
    const stream = random.stream(name);
    const all = Array.from({ length: SIZES[name] }, (_, i): ChoiceQuestion => {
      const urn = urns[stream.integer(urns.length)]!;
      const answer = draw(urn.shares, stream);
      const question = `Draw ${1000 + stream.integer(9000)} from ${urn.name}. Its colour?`;
      return { id: `${name}-${i}`, question, choices: COLOURS, answer, topic: urn.name };
    });
    return rows(name, all);
  };
  const instructions = (name: string, count: number) => {
    const stream = random.stream(name);
    const all = Array.from({ length: count }, (_, i): Instruction => {
      const urn = urns[stream.integer(urns.length)]!;
      const times = Array.from({ length: 3 }, () => COLOURS[draw(urn.shares, stream)]!);
      return {
        id: `${name}-${i}`,
        instruction: `Draw from ${urn.name} ${i % 7} times.`,
        input: '',
        output: times.join(' '),
      };
    });
    return rows(name, all);
  };

  const base = at('untrained');
  const parameters = randomParameters(CONFIG, random.stream('weights'));
  writeCheckpoint(base, { config: CONFIG, parameters });
  tree.dispose(parameters);
  const { tokenizer, config } = byteTokenizer();
  writeFile(path.join(base, 'tokenizer.json'), toJson(tokenizer));
  writeFile(path.join(base, 'tokenizer_config.json'), toJson(config));
  for (const name of ['train', 'test'] as const) questions(name);
  instructions('instructions', 240);
  instructions('instructions-validation', 120);

  const model = await loadModel(base);
  const overconfident = await train(model, {
    method: 'sft',
    train: questions('taught'),
    validation: questions('validation'),
    rank: CONFIG.hiddenSize,
    alpha: CONFIG.hiddenSize,
    dropout: 0,
    batch: 16,
    epochs: 36,
    rate: 2e-3,
    warmupEpochs: 2,
    weightDecay: 0,
    seed,
  });
  saveModel(overconfident, at('toy'));
  overconfident.dispose();
  model.dispose();
  fs.rmSync(base, { recursive: true });
  writeFile(at(MARK), `${identity}\n`);
  if (!isMade()) {
    fs.rmSync(where, { recursive: true, force: true });
    fs.renameSync(aside, where);
  }
  fs.rmSync(aside, { recursive: true, force: true });
  return where;
}

/** Shares of the colours: one of them has between two fifths and nine tenths. */
function sharesOf(random: Random): number[] {
  const favourite = random.integer(COLOURS.length);
  const most = 0.4 + 0.5 * random.uniform();
  return COLOURS.map((_, i) => (i === favourite ? most : (1 - most) / (COLOURS.length - 1)));
}

/** An index, drawn by its share. */
function draw(shares: readonly number[], random: Random): number {
  let left = random.uniform();
  const found = shares.findIndex((share) => (left -= share) < 0);
  return found < 0 ? shares.length - 1 : found;
}
