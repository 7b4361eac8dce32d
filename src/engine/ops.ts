import { native, tf, type Tensor, type Tensor2D, type Tensor4D } from './backend';

/** Which factors are taken transposed. */
export interface Transposed {
  transposeA?: boolean;
  transposeB?: boolean;
}

/**
 * a [n, k] times b [k, m] -> [n, m]; either may be stored transposed.
 * TensorFlow's plain MatMul, which is faster than the batched product tfjs would choose.
 */
export function matmul(
  a: Tensor2D,
  b: Tensor2D,
  { transposeA = false, transposeB = false }: Transposed = {},
): Tensor2D {
  const backend = native();
  if (!backend) return tf.matMul(a, b, transposeA, transposeB);
  return backend.executeSingleOutput('MatMul', productOf('transpose_a', transposeA, 'transpose_b', transposeB), [
    a,
    b,
  ]) as Tensor2D;
}

/** a [..., n, k] times b [..., k, m], batch by batch; either may be stored transposed. */
export function batchMatmul(
  a: Tensor4D,
  b: Tensor4D,
  { transposeA = false, transposeB = false }: Transposed = {},
): Tensor4D {
  const backend = native();
  if (!backend) return tf.matMul(a, b, transposeA, transposeB);
  return backend.executeSingleOutput('BatchMatMulV2', productOf('adj_x', transposeA, 'adj_y', transposeB), [
    a,
    b,
  ]) as Tensor4D;
}

function productOf(nameA: string, transposeA: boolean, nameB: string, transposeB: boolean) {
  const { TF_ATTR_BOOL, TF_ATTR_TYPE, TF_FLOAT } = native()!.binding;
  return [
    { name: nameA, type: TF_ATTR_BOOL, value: transposeA },
    { name: nameB, type: TF_ATTR_BOOL, value: transposeB },
    { name: 'T', type: TF_ATTR_TYPE, value: TF_FLOAT },
  ];
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
    const scale = inverseRms(x, shared);
    return tf.mul(tf.mul(x, scale), weight);
  });
}

/** 1 / sqrt(mean(x^2) + eps) of each row, [n, 1]. */
function inverseRms(x: Tensor2D, shared: Constants): Tensor {
  return tf.rsqrt(tf.add(tf.mul(rowSquares(x, shared), shared.perChannel), shared.eps));
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
 * The factors for tokens at `positions` [n], turned by position * `frequencies` [d/2] radians. Every head has its own, of
 * the full shape: queries can be scaled on the way, values pass unturned with the keys, and a product of equal shapes is
 * thrice as fast as one that is broadcast.
 */
export function rotaryTable(
  positions: Int32Array,
  frequencies: Float64Array,
  heads: readonly HeadRotation[],
): RotaryTable {
  const [n, half] = [positions.length, frequencies.length];
  const distinct = [...new Set(positions)];
  const rowOf = new Map(distinct.map((position, row) => [position, row]));
  const factors = new Float32Array(distinct.length * heads.length * half * 2);
  let at = 0;
  for (const position of distinct) {
    const angles = frequencies.map((f) => position * f);
    const [cos, sin] = [angles.map(Math.cos), angles.map(Math.sin)];
    for (const { turned, scale } of heads) {
      for (let i = 0; i < half; i++) {
        factors[at++] = turned ? cos[i]! * scale : scale;
        factors[at++] = turned ? sin[i]! * scale : 0;
      }
    }
  }
  return tf.tidy(() => {
    const table = tf.tensor2d(factors, [distinct.length, heads.length * half * 2]);
    const rows = tf.tensor1d(
      positions.map((position) => rowOf.get(position)!),
      'int32',
    );
    const pairs = tf.reshape(tf.gather(table, rows), [n * heads.length, half, 2]);
    if (native()) return { complex: asComplex(pairs) };
    const [cos, sin] = tf.split(pairs, 2, -1).map((t) => tf.reshape(t, [-1, half])) as [Tensor, Tensor];
    return { cos, sin };
  });
}

/** x [..., 2] read as complex numbers [...]; TensorFlow only. */
const asComplex = (x: Tensor): Tensor => bitcast(x, 'TF_FLOAT', 'TF_COMPLEX64');

function bitcast(x: Tensor, from: 'TF_FLOAT' | 'TF_COMPLEX64', to: 'TF_FLOAT' | 'TF_COMPLEX64'): Tensor {
  const { binding } = native()!;
  const type = (name: string, value: number) => ({ name, type: binding.TF_ATTR_TYPE, value });
  return native()!.executeSingleOutput('Bitcast', [type('T', binding[from]), type('type', binding[to])], [x]);
}

/**
 * Rotates neighbouring channel pairs (2i, 2i+1) of x [n, heads * d] by the table's angles: rotary embedding in the
 * interleaved layout, where each pair is one complex number, so that the whole rotation is one product.
 * @returns the heads one by one, [n * heads, d]
 */
export function rotate(x: Tensor2D, table: RotaryTable): Tensor2D {
  const factors = 'complex' in table ? table.complex : table.cos;
  const [rows, half] = factors.shape as [number, number];
  if ('complex' in table) {
    return tf.tidy(() => {
      const pairs = asComplex(tf.reshape(x, [rows, half, 2])); // [n * heads, d/2]
      return tf.reshape(bitcast(tf.mul(pairs, table.complex), 'TF_COMPLEX64', 'TF_FLOAT'), [rows, 2 * half]);
    });
  }
  return tf.tidy(() => {
    const parts = tf.split(tf.reshape(x, [rows, half, 2]), 2, -1);
    const [a, b] = parts.map((t) => tf.reshape(t, [rows, half])) as [Tensor, Tensor];
    const real = tf.sub(tf.mul(a, table.cos), tf.mul(b, table.sin));
    const imaginary = tf.add(tf.mul(a, table.sin), tf.mul(b, table.cos));
    return tf.reshape(tf.stack([real, imaginary], -1), [rows, 2 * half]);
  });
}

/** The table of the rotations undone: turned back, with the same scales (the adjoint of `rotate`). */
export function conjugate(table: RotaryTable): RotaryTable {
  if (!('complex' in table)) return { cos: tf.clone(table.cos), sin: tf.neg(table.sin) };
  const { binding } = native()!;
  const attributes = [{ name: 'T', type: binding.TF_ATTR_TYPE, value: binding.TF_COMPLEX64 }];
  return { complex: native()!.executeSingleOutput('Conj', attributes, [table.complex]) };
}

/** The gradient of `rmsNorm` by x [n, c], from that by its result: (g - x * scale^2 * mean(g * x)) * scale, g = dy * weight. */
export function rmsNormBackward(x: Tensor2D, weight: Tensor, gradient: Tensor2D, shared: Constants): Tensor2D {
  return tf.tidy(() => {
    const scale = inverseRms(x, shared);
    const g = tf.mul(gradient, weight);
    const mean = tf.mul(tf.sum(tf.mul(g, x), 1, true), shared.perChannel); // [n, 1]
    return tf.mul(tf.sub(g, tf.mul(x, tf.mul(mean, tf.square(scale)))), scale);
  });
}

/** silu(gate) * up, element by element: gate * sigmoid(gate) * up. */
export function swiGlu(gate: Tensor2D, up: Tensor2D): Tensor2D {
  return tf.tidy(() => timesSigmoid(tf.mul(gate, up), gate));
}

/** silu(gate) = gate * sigmoid(gate). */
export function silu(gate: Tensor2D): Tensor2D {
  return timesSigmoid(gate, gate);
}

/** The gradients of `swiGlu` by gate and up, from that by its result and from silu(gate). */
export function swiGluBackward(
  gate: Tensor2D,
  up: Tensor2D,
  siluGate: Tensor2D,
  gradient: Tensor2D,
): { dGate: Tensor2D; dUp: Tensor2D } {
  return tf.tidy(() => {
    const byUp = tf.mul<Tensor2D>(gradient, up);
    return {
      // silu' = sigmoid * (1 + gate - silu)
      dGate: timesSigmoid(tf.add(byUp, tf.mul(byUp, tf.sub(gate, siluGate))), gate),
      dUp: tf.mul<Tensor2D>(gradient, siluGate),
    };
  });
}

/** x * sigmoid(gate). */
function timesSigmoid(x: Tensor2D, gate: Tensor2D): Tensor2D {
  const backend = native();
  if (!backend) return tf.tidy(() => tf.mul(x, tf.sigmoid(gate)));
  // The gradient of softplus is gradients * sigmoid(features): the product with the sigmoid in one op.
  const attributes = [{ name: 'T', type: backend.binding.TF_ATTR_TYPE, value: backend.binding.TF_FLOAT }];
  return backend.executeSingleOutput('SoftplusGrad', attributes, [x, gate]) as Tensor2D;
}

/**
 * A dropout mask: 0 with probability `rate`, else 1 / (1 - rate). It follows from the two seeds and the shape alone.
 */
export function dropoutMask(shape: [number, number], rate: number, seeds: [number, number]): Tensor2D {
  const backend = native();
  return tf.tidy(() => {
    const uniform = backend
      ? backend.executeSingleOutput(
          'StatelessRandomUniform',
          [
            { name: 'dtype', type: backend.binding.TF_ATTR_TYPE, value: backend.binding.TF_FLOAT },
            { name: 'T', type: backend.binding.TF_ATTR_TYPE, value: backend.binding.TF_INT32 },
            { name: 'Tseed', type: backend.binding.TF_ATTR_TYPE, value: backend.binding.TF_INT32 },
          ],
          [tf.tensor1d(shape, 'int32'), tf.tensor1d(seeds, 'int32')],
        )
      : tf.randomUniform(shape, 0, 1, 'float32', seeds.join());
    return tf.mul(tf.cast(tf.greaterEqual(uniform, rate), 'float32'), 1 / (1 - rate));
  });
}
