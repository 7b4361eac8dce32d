import { tf, type Tensor2D } from '../engine/backend';

/**
 * Moves the rows [heads * d, columns] of a Hugging Face query or key matrix, whose rotary pairs are (i, i + d/2), into
 * the interleaved layout (2i, 2i + 1) that the engine rotates in: llama.cpp's permutation.
 */
export function interleave(rows: Tensor2D, headDim: number): Tensor2D {
  return permute(rows, [2, headDim / 2], headDim);
}

/** Undoes `interleave`. */
export function deinterleave(rows: Tensor2D, headDim: number): Tensor2D {
  return permute(rows, [headDim / 2, 2], headDim);
}

function permute(rows: Tensor2D, [a, b]: [number, number], headDim: number): Tensor2D {
  const [count, columns] = rows.shape;
  return tf.tidy(() =>
    tf.reshape(tf.transpose(tf.reshape(rows, [count / headDim, a, b, columns]), [0, 2, 1, 3]), [count, columns]),
  );
}
