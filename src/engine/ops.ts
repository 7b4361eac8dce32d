import { native, tf, type Tensor, type Tensor2D, type Tensor4D } from './backend';

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

/** a [..., n, k] times b [..., k, m] (or b [..., m, k] with `transposeB`), batch by batch. */
export function batchMatmul(a: Tensor4D, b: Tensor4D, transposeB = false): Tensor4D {
  const backend = native();
  if (!backend) return tf.matMul(a, b, false, transposeB);
  const { TF_ATTR_BOOL, TF_ATTR_TYPE, TF_FLOAT } = backend.binding;
  const attributes = [
    { name: 'adj_x', type: TF_ATTR_BOOL, value: false },
    { name: 'adj_y', type: TF_ATTR_BOOL, value: transposeB },
    { name: 'T', type: TF_ATTR_TYPE, value: TF_FLOAT },
  ];
  return backend.executeSingleOutput('BatchMatMulV2', attributes, [a, b]) as Tensor4D;
}

/** Small tensors that the ops of one forward pass share: to make one takes tfjs as long as a small op. */
export interface Constants {
  zero: Tensor; // int32, the axis of a gather
  rows: Tensor; // int32 [1], the axis of a sum over channels
  perChannel: Tensor; // 1 / c
  eps: Tensor;
}

/** The constants of a pass whose norms are over c = `channels` channels with `eps`. */
export function constants(channels: number, eps: number): Constants {
  return {
    zero: tf.scalar(0, 'int32'),
    rows: tf.tensor1d([1], 'int32'),
    perChannel: tf.scalar(1 / channels),
    eps: tf.scalar(eps),
  };
}

/** Rows of x [n, c] by index [...] -> [..., c]. */
export function gatherRows<T extends Tensor>(x: Tensor2D, index: Tensor, { zero }: Constants): T {
  const backend = native();
  if (!backend) return tf.gather(x, index) as Tensor as T;
  const { TF_ATTR_INT, TF_ATTR_TYPE, TF_FLOAT, TF_INT32 } = backend.binding;
  const attributes = [
    { name: 'batch_dims', type: TF_ATTR_INT, value: 0 },
    { name: 'Tparams', type: TF_ATTR_TYPE, value: TF_FLOAT },
    { name: 'Tindices', type: TF_ATTR_TYPE, value: TF_INT32 },
    { name: 'Taxis', type: TF_ATTR_TYPE, value: TF_INT32 },
  ];
  return backend.executeSingleOutput('GatherV2', attributes, [x, index, zero]) as T;
}

/** Root-mean-square norm of each row: x [n, c] / sqrt(mean(x^2) + eps) * weight [c]. */
export function rmsNorm(x: Tensor2D, weight: Tensor, shared: Constants): Tensor2D {
  return tf.tidy(() => {
    const scale = tf.rsqrt(tf.add(tf.mul(rowSquares(x, shared), shared.perChannel), shared.eps)); // [n, 1]
    return tf.mul(tf.mul(x, scale), weight);
  });
}

/** Sum of squares of each row, [n, 1]. TensorFlow reads x once and writes no squares. */
function rowSquares(x: Tensor2D, { rows }: Constants): Tensor {
  const backend = native();
  if (!backend) return tf.sum(tf.square(x), 1, true);
  const { TF_ATTR_BOOL, TF_ATTR_TYPE, TF_FLOAT, TF_INT32 } = backend.binding;
  const attributes = [
    { name: 'keep_dims', type: TF_ATTR_BOOL, value: true },
    { name: 'T', type: TF_ATTR_TYPE, value: TF_FLOAT },
    { name: 'Tidx', type: TF_ATTR_TYPE, value: TF_INT32 },
  ];
  return tf.square(backend.executeSingleOutput('EuclideanNorm', attributes, [x, rows]));
}

/** The factor of each pair of channels: [n * heads, d/2] as complex numbers, or their parts. */
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
    const shape: [number, number] = [n * heads.length, half];
    const parts = { cos: tf.tensor2d(cos, shape), sin: tf.tensor2d(sin, shape) };
    return native() ? { complex: tf.complex(parts.cos, parts.sin) } : parts;
  });
}

/**
 * Rotates neighbouring channel pairs (2i, 2i+1) of x [n, heads * d] by the table's angles: rotary embedding in the
 * interleaved layout, where each pair is one complex number, so that the whole rotation is one product.
 * @returns the heads one by one, [n * heads, d]
 */
export function rotate(x: Tensor2D, table: RotaryTable): Tensor2D {
  const backend = native();
  const factors = 'complex' in table ? table.complex : table.cos;
  const [rows, half] = factors.shape as [number, number];
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
      const pairs = bitcast(tf.reshape(x, [rows, half, 2]), TF_FLOAT, TF_COMPLEX64); // [n * heads, d/2]
      return tf.reshape(bitcast(tf.mul(pairs, table.complex), TF_COMPLEX64, TF_FLOAT), [rows, 2 * half]);
    });
  }
  if (!('cos' in table)) throw new Error('a complex rotary table needs the TensorFlow backend');
  return tf.tidy(() => {
    const parts = tf.split(tf.reshape(x, [rows, half, 2]), 2, -1);
    const [a, b] = parts.map((t) => tf.reshape(t, [rows, half])) as [Tensor, Tensor];
    const real = tf.sub(tf.mul(a, table.cos), tf.mul(b, table.sin));
    const imaginary = tf.add(tf.mul(a, table.sin), tf.mul(b, table.cos));
    return tf.reshape(tf.stack([real, imaginary], -1), [rows, 2 * half]);
  });
}

/** silu(gate) * up, element by element: gate * sigmoid(gate) * up. */
export function swiGlu(gate: Tensor2D, up: Tensor2D): Tensor2D {
  const backend = native();
  if (!backend) return tf.tidy(() => tf.mul(tf.mul(gate, tf.sigmoid(gate)), up));
  // The gradient of softplus is gradients * sigmoid(features): the product with the sigmoid in one op.
  const attributes = [{ name: 'T', type: backend.binding.TF_ATTR_TYPE, value: backend.binding.TF_FLOAT }];
  return tf.tidy(() => backend.executeSingleOutput('SoftplusGrad', attributes, [tf.mul(gate, up), gate]) as Tensor2D);
}
