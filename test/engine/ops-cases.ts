import { tf, type Tensor } from '../../src/engine/backend';
import { batchMatmul, constants, gatherRows, matmul, rmsNorm, rotaryTable, rotate, swiGlu } from '../../src/engine/ops';
import { Random } from '../../src/engine/random';

/** One op on random input: what the engine gives, and the same from its formula in float64. */
export interface OpsCase {
  name: string;
  run: () => Tensor;
  shape: number[];
  right: number[];
}

/** A case of every op; the seed sets sizes and values. Values are rounded to float32, so that inputs are equal. */
export function opsCases(seed: number): OpsCase[] {
  const random = Random.seed(seed).stream('ops');
  const size = () => 1 + random.integer(7);
  const values = (n: number, scale = 1) => Array.from({ length: n }, () => Math.fround(scale * random.normal()));
  const [n, k, m, heads, half] = [size(), size(), size(), size(), size()];
  const x = values(n * k);
  const w = values(k * m);
  const weight = values(k);
  const positions = Int32Array.from({ length: n }, () => random.integer(5)); // some twice
  const frequencies = Float64Array.from({ length: half }, () => random.normal());
  const q = values(n * heads * 2 * half);
  const gates = values(n * m, 10);
  const ups = values(n * m, 10);
  // One head in two passes unturned; each has its scale.
  const rotations = Array.from({ length: heads }, (_, h) => ({ turned: h % 2 === 0, scale: 1 / (1 + h) }));
  const wTransposed = Array.from({ length: m * k }, (_, i) => w[(i % k) * m + Math.floor(i / k)]!);
  const grid = (rows: number, columns: number, at: (row: number, column: number) => number) =>
    Array.from({ length: rows * columns }, (_, i) => at(Math.floor(i / columns), i % columns));
  const sum = (length: number, term: (i: number) => number) =>
    Array.from({ length }, (_, i) => term(i)).reduce((a, b) => a + b, 0);

  const product = grid(n, m, (r, c) => sum(k, (i) => x[r * k + i]! * w[i * m + c]!));
  const eps = 1e-5;
  return [
    {
      name: 'matmul',
      shape: [n, m],
      right: product,
      run: () => matmul(tf.tensor2d(x, [n, k]), tf.tensor2d(w, [k, m])),
    },
    {
      name: 'matmul, transposed',
      shape: [n, m],
      right: product,
      run: () => matmul(tf.tensor2d(x, [n, k]), tf.tensor2d(wTransposed, [m, k]), { transposeB: true }),
    },
    {
      name: 'batchMatmul, transposed',
      shape: [1, 1, n, m],
      right: product,
      run: () =>
        batchMatmul(tf.tensor4d(x, [1, 1, n, k]), tf.tensor4d(wTransposed, [1, 1, m, k]), { transposeB: true }),
    },
    {
      name: 'gatherRows',
      shape: [1, 2, k],
      right: [...x.slice(-k), ...x.slice(0, k)],
      run: () => gatherRows(tf.tensor2d(x, [n, k]), tf.tensor2d([[n - 1, 0]], [1, 2], 'int32'), constants(k, eps)),
    },
    {
      name: 'rmsNorm',
      shape: [n, k],
      right: grid(n, k, (r, c) => {
        const meanSquare = sum(k, (i) => x[r * k + i]! ** 2) / k;
        return (x[r * k + c]! / Math.sqrt(meanSquare + eps)) * weight[c]!;
      }),
      run: () => rmsNorm(tf.tensor2d(x, [n, k]), tf.tensor1d(weight), constants(k, eps)),
    },
    {
      name: 'rotate',
      shape: [n * heads, 2 * half],
      // Channels 2i and 2i + 1 are one complex number, turned by the angle of token and i.
      right: grid(n * heads, 2 * half, (row, c) => {
        const { turned, scale } = rotations[row % heads]!;
        const angle = turned ? positions[Math.floor(row / heads)]! * frequencies[c >> 1]! : 0;
        const [a, b] = [scale * q[row * 2 * half + (c & ~1)]!, scale * q[row * 2 * half + (c | 1)]!];
        return c % 2 === 0 ? a * Math.cos(angle) - b * Math.sin(angle) : a * Math.sin(angle) + b * Math.cos(angle);
      }),
      run: () => rotate(tf.tensor2d(q, [n, heads * 2 * half]), rotaryTable(positions, frequencies, rotations)),
    },
    {
      name: 'swiGlu',
      shape: [n, m],
      right: grid(n, m, (r, c) => {
        const gate = gates[r * m + c]!;
        return (gate / (1 + Math.exp(-gate))) * ups[r * m + c]!;
      }),
      run: () => swiGlu(tf.tensor2d(gates, [n, m]), tf.tensor2d(ups, [n, m])),
    },
  ];
}

/** The largest error of `got` against `right`, relative where `right` is above 1. */
export function opsError(got: ArrayLike<number>, right: readonly number[]): number {
  if (got.length !== right.length) return Infinity;
  return Math.max(...right.map((value, i) => Math.abs(got[i]! - value) / Math.max(1, Math.abs(value))));
}
