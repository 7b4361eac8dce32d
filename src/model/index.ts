export { configFromGguf, configFromHuggingFace, type ModelConfig } from './config';
export { openGguf } from './gguf';
export { openCheckpoint } from './safetensors';
export { GGUF_NAMES, HUGGING_FACE_NAMES, loadParameters } from './load';
export type { TensorSource } from './checkpoint-types';
export { forward, unembed, type Parameters } from './transformer';
export { pack, type Sequence } from './packed';
export { lastLogits, scoreBranches, type Continuation, type Transformer } from './score';
export { generate, type GenerateOptions } from './generate';
