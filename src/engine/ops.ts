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
    const scale = tf.rsqrt(tf.add(tf.div(rowSquares(x), x.shape[1]), eps)); // [n, 1]
    return tf.mul(tf.mul(x, scale), weight);
  });
}

/** Sum of squares of each row, [n, 1]. TensorFlow reads x once and writes no squares. */
function rowSquares(x: Tensor2D): Tensor {
  const backend = native();
  if (!backend) return tf.sum(tf.square(x), 1, true);
  const { TF_ATTR_BOOL, TF_ATTR_TYPE, TF_FLOAT, TF_INT32 } = backend.binding;
  const attributes = [
    { name: 'keep_dims', type: TF_ATTR_BOOL, value: true },
    { name: 'T', type: TF_ATTR_TYPE, value: TF_FLOAT },
    { name: 'Tidx', type: TF_ATTR_TYPE, value: TF_INT32 },
  ];
  return tf.square(backend.executeSingleOutput('EuclideanNorm', attributes, [x, tf.tensor1d([1], 'int32')]));
}

/** The factor of each pair of channels: [n, heads, d/2] as complex numbers, or their parts. */
export type RotaryTable = { complex: Tensor } | { cos: Tensor; sin: Tensor };

/** What is done to one head's channels: turned by the angles or not, and scaled. */
export interface HeadRotation {
  turned: boolean;
  scale: number;
}

/**
 * The factors for `angles` [n, d/2] in radians. Every head has its own, of the full shape: queries can be scaled on the
 * way, values pass unturned with the keys, and a product of equal shapes is thrice as fast as one that is broadcast.
 */
export function rotaryTable(angles: Float64Array, n: number, heads: readonly HeadRotation[]): RotaryTable {
  const half = angles.length / n;
  const [turnedCos, turnedSin] = [angles.map(Math.cos), angles.map(Math.sin)];
  const size = n * heads.length * half;
  const [cos, sin] = [new Float32Array(size), new Float32Array(size)];
  let at = 0;
  for (let t = 0; t < n; t++) {
    for (const { turned, scale } of heads) {
      for (let i = t * half; i < (t + 1) * half; i++, at++) {
        cos[at] = turned ? turnedCos[i]! * scale : scale;
        sin[at] = turned ? turnedSin[i]! * scale : 0;
      }
    }
  }
  return tf.tidy(() => {
    const shape: [number, number, number] = [n, heads.length, half];
    const parts = { cos: tf.tensor3d(cos, shape), sin: tf.tensor3d(sin, shape) };
    return native() ? { complex: tf.complex(parts.cos, parts.sin) } : parts;
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

/** silu(gate) * up, element by element: x * sigmoid(x) * up. */
export function swiGlu(gate: Tensor2D, up: Tensor2D): Tensor2D {
  return tf.tidy(() => tf.mul(tf.mul(gate, tf.sigmoid(gate)), up));
}
