import { checkNotEmpty, checkPairs } from './check';

/** Keeps the smoothed residual finite where no confidence is near, as the reference implementation does. */
const DENSITY_FLOOR = 1e-4;
/** Halvings of [0, 1] in the search for the bandwidth, and the bandwidth below which it stops. */
const HALVINGS = 10;
const SMALLEST_BANDWIDTH = 1e-3;

/** Spreads each value over the two nearest points of a grid on [0, 1]. */
function toGrid(at: ArrayLike<number>, values: ArrayLike<number>, points: number): Float64Array {
  const grid = new Float64Array(points);
  for (let i = 0; i < at.length; i++) {
    const position = at[i]! * (points - 1);
    const left = Math.min(Math.trunc(position), points - 2);
    grid[left]! += (1 - (position - left)) * values[i]!;
    grid[left + 1]! += (position - left) * values[i]!;
  }
  return grid;
}

/** The Gaussian density of width `sigma` on a grid over [-1/2, 1/2]. */
function gaussian(points: number, sigma: number): Float64Array {
  return Float64Array.from({ length: points }, (_, i) => {
    const x = i / (points - 1) - 0.5;
    return Math.exp((-x * x) / (2 * sigma * sigma)) / (Math.sqrt(2 * Math.PI) * sigma);
  });
}

/** A smoother of grids: convolves with the kernel, the grid mirrored at 0 and 1, and reads off point j. */
function reflected(points: number, sigma: number): (grid: Float64Array, j: number) => number {
  const kernel = gaussian(points, sigma);
  const first = kernel.findIndex((weight) => weight > 0); // a narrow kernel underflows to 0 outside
  const half = Math.floor(points / 2);
  return (grid, j) => {
    let sum = 0;
    for (let k = first; k < points - first; k++) {
      let at = Math.abs(j + half - k);
      if (at >= points) at = 2 * (points - 1) - at;
      sum += grid[at]! * kernel[k]!;
    }
    return sum;
  };
}

/**
 * smECE at a fixed bandwidth: the residuals (confidence - correct) smoothed by the reflected Gaussian kernel, their
 * absolute values averaged over [0, 1] (Blasiok & Nakkiran 2024, Definition 4), on the grids of the authors' relplot.
 */
export function smoothEceAt(confidence: ArrayLike<number>, correct: ArrayLike<number>, sigma: number): number {
  checkPairs(confidence, correct);
  checkNotEmpty(confidence.length);
  const points = Math.floor(Math.max(2000, Math.round(20 / sigma)) / 2) + 1;
  const smooth = reflected(points, sigma);
  const residuals = toGrid(
    confidence,
    Array.from(confidence, (c, i) => c - correct[i]!),
    points,
  );
  const mass = toGrid(confidence, new Float64Array(confidence.length).fill(1), points);

  const evaluations = Math.max(Math.round(10 / sigma), 200);
  let error = 0;
  let total = 0;
  for (let e = 0; e < evaluations; e++) {
    const position = (e / (evaluations - 1)) * (points - 1);
    const left = Math.min(Math.trunc(position), points - 2);
    const right = position - left;
    error += Math.abs(smooth(residuals, left) * (1 - right) + smooth(residuals, left + 1) * right);
    total += smooth(mass, left) * (1 - right) + smooth(mass, left + 1) * right + DENSITY_FLOOR;
  }
  return error / total;
}

/**
 * Smooth ECE (Blasiok & Nakkiran 2024, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing"): smECE at
 * the bandwidth sigma* where smECE_sigma = sigma, found to 2^-10 by halving as in relplot. Has no bins to choose.
 * @param confidence n confidences in [0, 1]
 * @param correct n outcomes, 0 or 1
 * @throws CalmError without pairs
 */
export function smoothEce(confidence: ArrayLike<number>, correct: ArrayLike<number>): number {
  return smoothEceAt(confidence, correct, smoothBandwidth(confidence, correct));
}

/** The bandwidth sigma* of `smoothEce`, from above. */
export function smoothBandwidth(confidence: ArrayLike<number>, correct: ArrayLike<number>): number {
  let above = 1;
  let below = 0;
  for (let i = 0; i < HALVINGS; i++) {
    const sigma = (above + below) / 2;
    if (sigma < SMALLEST_BANDWIDTH || sigma < smoothEceAt(confidence, correct, sigma)) below = sigma;
    else above = sigma;
  }
  return above;
}
