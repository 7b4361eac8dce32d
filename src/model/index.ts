export { configFromGguf, configFromHuggingFace, type ModelConfig } from './config';
export { openGguf } from './gguf';
export { openCheckpoint } from './safetensors';
export { GGUF_NAMES, HUGGING_FACE_NAMES, loadParameters } from './load';
export { WEIGHT_FORMATS, type WeightFormat } from './weight-formats';
export type { TensorSource } from './checkpoint-types';
export { forward, unembed, unembeddingOf, type Parameters, type Transformer } from './transformer';
export { pack, type Sequence } from './packed';
export { withSharedPrefix, type Prefix } from './cache';
export { growTrees, type Tree } from './tree';
export {
  labelScores,
  lastLogits,
  LOGIT_ROWS,
  scoreContinuations,
  tokensRead,
  type Continuation,
  type ScoreRequest,
} from './score';
export {
  createAdapter,
  fuse,
  loraScaling,
  unfuse,
  PAPER_LORA,
  type Adapter,
  type AdapterBlock,
  type LoraConfig,
} from './lora';
export { TARGETS, type Target } from './targets';
export { randomParameters, writeCheckpoint } from './write-checkpoint';
export { readAdapter, writeAdapter } from './adapter-files';
export { trainingPass } from './training-pass';
export { generate, type Continued, type GenerateOptions } from './generate';
export { checkSampling, type Sampling } from './sample';
