/**
 * How a model's matrices are held in memory: `float32` is the fastest; `stored` keeps the file's own bytes (GGUF blocks,
 * float16), `nf4` 4-bit NormalFloat with double quantisation (QLoRA), and both make float32 block by block when needed.
 */
export const WEIGHT_FORMATS = ['float32', 'stored', 'nf4'] as const;
export type WeightFormat = (typeof WEIGHT_FORMATS)[number];
