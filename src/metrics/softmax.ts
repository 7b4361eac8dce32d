/** (z - max) / T, with the limits at T = 0 and T = Infinity instead of 0/0 and Infinity/Infinity. */
function scaledGap(logit: number, max: number, temperature: number): number {
  const gap = logit === max ? 0 : logit - max;
  return gap === 0 || gap === -Infinity ? gap : gap / temperature;
}

function largest(logits: ArrayLike<number>): number {
  let max = -Infinity;
  for (let k = 0; k < logits.length; k++) max = Math.max(max, logits[k]!);
  return max;
}

/** log(sum of exp(z)), without overflow; -Infinity when every logit is. */
export function logSumExp(logits: ArrayLike<number>): number {
  const max = largest(logits);
  if (!Number.isFinite(max)) return max;
  let sum = 0;
  for (let k = 0; k < logits.length; k++) sum += Math.exp(logits[k]! - max);
  return max + Math.log(sum);
}

/**
 * log softmax(z / T). A logit of -Infinity has probability 0 at every T. T = Infinity is the uniform distribution
 * over the finite logits, T = 0 the one over the largest. At least one logit must be finite.
 */
export function logSoftmax(logits: ArrayLike<number>, temperature = 1): number[] {
  const max = largest(logits);
  const gaps = Array.from(logits, (z) => scaledGap(z, max, temperature));
  const norm = logSumExp(gaps);
  return gaps.map((gap) => gap - norm);
}

/** softmax(z / T), with the limits of `logSoftmax`. */
export function softmax(logits: ArrayLike<number>, temperature = 1): number[] {
  const max = largest(logits);
  const weights = Array.from(logits, (z) => Math.exp(scaledGap(z, max, temperature)));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / sum);
}
