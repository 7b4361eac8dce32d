/**
 * The Hessian of the cross-entropy of a softmax, summed row by row: of rows with class probabilities p and inputs u_k,
 * entry (k a, l b) gains p_k ([k = l] - p_l) u_ka u_lb.
 */
export interface Curvature {
  clear(): void;
  /** @param input of each class its inputs, the last one 1; where they are shared those of one are read */
  add(p: Float64Array, input: Float64Array): void;
  /** The sums divided by `rows`, as the lower triangle of a (K width) x (K width) matrix. */
  write(hessian: Float64Array, rows: number): void;
}

// Loops are apart from the closures that use them: those would look up an array at each use.

function addOwn(sums: Float64Array, p: Float64Array, input: Float64Array) {
  const size = input.length;
  const width = size / p.length;
  for (let k = 0; k < p.length; k++) {
    for (let l = 0; l <= k; l++) {
      const curvature = k === l ? p[k]! * (1 - p[k]!) : -p[k]! * p[l]!;
      for (let a = 0; a < width; a++) {
        const c = curvature * input[k * width + a]!;
        const at = (k * width + a) * size + l * width;
        for (let b = 0; b < width; b++) sums[at + b]! += c * input[l * width + b]!;
      }
    }
  }
}

/** Of classes that each have inputs of their own. */
export function ownCurvature(classes: number, width: number): Curvature {
  const size = classes * width;
  const sums = new Float64Array(size * size);
  return {
    clear: () => void sums.fill(0),
    add: (p, input) => addOwn(sums, p, input),
    write(hessian, rows) {
      for (let at = 0; at < sums.length; at++) hessian[at] = sums[at]! / rows;
    },
  };
}

/** Rows whose products are added at once: a sum is then read and written once for all of them. */
const ROWS = 8;

function writeProducts(products: Float64Array, at: number, input: Float64Array, width: number) {
  for (let a = 0; a < width; a++) for (let b = 0; b <= a; b++) products[at++] = input[a]! * input[b]!;
}

/** Of all classes but the last. */
function writeWeights(weights: Float64Array, at: number, p: Float64Array) {
  for (let k = 0; k < p.length - 1; k++) {
    for (let l = 0; l < k; l++) weights[at++] = -p[k]! * p[l]!;
    weights[at++] = p[k]! * (1 - p[k]!);
  }
}

/** Sums of eight rows, written out: an inner loop over them, or a list taken apart, takes longer. */
function addRows(sums: Float64Array, weights: Float64Array, products: Float64Array) {
  const pairs = weights.length / ROWS;
  const half = products.length / ROWS;
  for (let pair = 0, at = 0; pair < pairs; pair++) {
    const w0 = weights[pair]!;
    const w1 = weights[pairs + pair]!;
    const w2 = weights[2 * pairs + pair]!;
    const w3 = weights[3 * pairs + pair]!;
    const w4 = weights[4 * pairs + pair]!;
    const w5 = weights[5 * pairs + pair]!;
    const w6 = weights[6 * pairs + pair]!;
    const w7 = weights[7 * pairs + pair]!;
    for (let a = 0; a < half; a++, at++) {
      const some = w0 * products[a]! + w1 * products[half + a]! + w2 * products[2 * half + a]! + w3 * products[3 * half + a]!; // prettier-ignore
      const more = w4 * products[4 * half + a]! + w5 * products[5 * half + a]! + w6 * products[6 * half + a]! + w7 * products[7 * half + a]!; // prettier-ignore
      sums[at]! += some + more;
    }
  }
}

/**
 * Of classes that share their inputs u: blocks are symmetric then, and sum to 0 over the classes, so that half of each is
 * summed and those of the last class follow. It takes 40 % of the products.
 */
export function sharedCurvature(classes: number, width: number): Curvature {
  const size = classes * width;
  const last = classes - 1;
  const half = (width * (width + 1)) / 2;
  const pairs = (last * classes) / 2;
  const products = new Float64Array(ROWS * half);
  const weights = new Float64Array(ROWS * pairs);
  const sums = new Float64Array(pairs * half);
  let held = 0;
  const flush = () => {
    weights.fill(0, held * pairs);
    held = 0;
    addRows(sums, weights, products);
  };
  return {
    clear() {
      sums.fill(0);
      held = 0;
    },
    add(p, input) {
      writeProducts(products, held * half, input, width);
      writeWeights(weights, held * pairs, p);
      if (++held === ROWS) flush();
    },
    write(hessian, rows) {
      flush();
      const entry = (k: number, l: number, a: number, b: number) => {
        const [pair, place] = [
          (Math.max(k, l) * (Math.max(k, l) + 1)) / 2 + Math.min(k, l),
          (Math.max(a, b) * (Math.max(a, b) + 1)) / 2 + Math.min(a, b),
        ];
        return sums[pair * half + place]! / rows;
      };
      for (let a = 0; a < width; a++) {
        for (let b = 0; b < width; b++) {
          let corner = 0;
          for (let l = 0; l < last; l++) {
            let column = 0;
            for (let k = 0; k < last; k++) {
              const value = entry(k, l, a, b);
              column += value;
              hessian[(k * width + a) * size + l * width + b] = value;
            }
            hessian[(last * width + a) * size + l * width + b] = -column;
            corner += column;
          }
          hessian[(last * width + a) * size + last * width + b] = corner;
        }
      }
    },
  };
}
