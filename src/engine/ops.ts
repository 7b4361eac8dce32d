import { native, tf, type Tensor, type Tensor2D } from './backend';

/**
 * x [n, k] times w [k, m] (or w [m, k] with `transposeW`) -> [n, m].
 * TensorFlow's plain MatMul, which is faster than the batched product tfjs would choose.
 */
export function matmul(x: Tensor2D, w: Tensor2D, transposeW = false): Tensor2D {
  const backend = native();
  if (!backend) return tf.matMul(x, w, false, transposeW);
  const { TF_ATTR_BOOL, TF_ATTR_TYPE, TF_FLOAT } = backend.binding;
  const attributes = [
    { name: 'transpose_a', type: TF_ATTR_BOOL, value: false },
    { name: 'transpose_b', type: TF_ATTR_BOOL, value: transposeW },
    { name: 'T', type: TF_ATTR_TYPE, value: TF_FLOAT },
  ];
  return backend.executeSingleOutput('MatMul', attributes, [x, w]) as Tensor2D;
}

/** Root-mean-square norm of each row: x [n, c] / sqrt(mean(x^2) + eps) * weight [c]. */
export function rmsNorm(x: Tensor2D, weight: Tensor, eps: number): Tensor2D {
  return tf.tidy(() => {
    const scale = tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), eps)); // [n, 1]
    return tf.mul(tf.mul(x, scale), weight);
  });
}

/** Per token the rotation of each pair of channels: [n, 1, d/2] as complex numbers, or cos and sin apart. */
export type RotaryTable = { complex: Tensor } | { cos: Tensor; sin: Tensor };

/** The rotations for `angles` [n, d/2] in radians. */
export function rotaryTable(angles: Float64Array, n: number): RotaryTable {
  const half = angles.length / n;
  return tf.tidy(() => {
    const cos = tf.tensor3d(Float32Array.from(angles, Math.cos), [n, 1, half]);
    const sin = tf.tensor3d(Float32Array.from(angles, Math.sin), [n, 1, half]);
    return native() ? { complex: tf.complex(cos, sin) } : { cos, sin };
  });
}

/**
 * Rotates neighbouring channel pairs (2i, 2i+1) of x [n, heads, d] by the table's angles: rotary embedding in the
 * interleaved layout, where each pair is one complex number, so that the whole rotation is one product.
 */
export function rotate(x: Tensor, table: RotaryTable): Tensor {
  const [n, heads, d] = x.shape as [number, number, number];
  const backend = native();
  if ('complex' in table && backend) {
    const { TF_ATTR_TYPE, TF_FLOAT, TF_COMPLEX64 } = backend.binding;
    const bitcast = (t: Tensor, from: number, to: number) =>
      backend.executeSingleOutput(
        'Bitcast',
        [
          { name: 'T', type: TF_ATTR_TYPE, value: from },
          { name: 'type', type: TF_ATTR_TYPE, value: to },
        ],
        [t],
      );
    return tf.tidy(() => {
      const pairs = tf.reshape(x, [n, heads, d / 2, 2]);
      const rotated = tf.mul(bitcast(pairs, TF_FLOAT, TF_COMPLEX64), table.complex); // [n, heads, d/2]
      return tf.reshape(bitcast(rotated, TF_COMPLEX64, TF_FLOAT), [n, heads, d]);
    });
  }
  if (!('cos' in table)) throw new Error('a complex rotary table needs the TensorFlow backend');
  return tf.tidy(() => {
    const [a, b] = tf
      .split(tf.reshape(x, [n, heads, d / 2, 2]), 2, -1)
      .map((t) => tf.reshape(t, [n, heads, d / 2])) as [Tensor, Tensor];
    const real = tf.sub(tf.mul(a, table.cos), tf.mul(b, table.sin));
    const imaginary = tf.add(tf.mul(a, table.sin), tf.mul(b, table.cos));
    return tf.reshape(tf.stack([real, imaginary], -1), [n, heads, d]);
  });
}

/** silu(gate) * up for a fused [n, 2c] = (gate, up): x * sigmoid(x) * up, as [n, c]. */
export function swiGlu(gateUp: Tensor2D): Tensor2D {
  return tf.tidy(() => {
    const [gate, up] = tf.split(gateUp, 2, 1) as [Tensor2D, Tensor2D];
    return tf.mul(tf.mul(gate, tf.sigmoid(gate)), up);
  });
}
