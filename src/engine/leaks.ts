import { tf } from './backend';

/** Tensors that `run` leaves behind beyond those it found: 0 for code that frees what it makes. */
export async function tensorsKept(run: () => unknown): Promise<number> {
  const before = tf.memory().numTensors;
  await run();
  return tf.memory().numTensors - before;
}
