import type { TensorType } from './dequantise';

/**
 * The named tensors of a checkpoint, whatever its format. Names are the file's own: llama.cpp's in a GGUF file
 * (`blk.0.attn_q.weight`), Hugging Face's in safetensors (`model.layers.0.self_attn.q_proj.weight`).
 * Only the header is in memory; a tensor is read from the file each time it is asked for.
 */
export interface TensorSource {
  names(): Iterable<string>;

  /** Row-major shape, `[out, in]` for the weight of a linear layer. @throws CalmError for a name that is not there. */
  shape(name: string): number[];

  /** All values, row-major, as float32. @throws CalmError when there is no such tensor of weights. */
  float32(name: string): Float32Array;

  /** The stored bytes and how they are stored, or undefined for a type that only `float32` reads. */
  stored(name: string): { type: TensorType; bytes: Uint8Array } | undefined;

  close(): void;
}
