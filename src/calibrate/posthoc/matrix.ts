import { z } from 'zod';
import { type PosthocMethod, type PosthocStatus, STATUSES } from './method';
import type { Objective } from './newton';
import { fitRegression } from './regression';
import { linear } from './rows';
import { type Columns, countLabels, softmaxLoss, standardise } from './softmax-regression';

export interface MatrixScaling {
  status: PosthocStatus;
  classes: number;
  lambda: number;
  mu: number;
  /** K x K: weights[j][k] is the weight of logit k in the score of class j. Off its diagonal each column sums to 0. */
  weights: number[][];
  /** They sum to 0. */
  biases: number[];
}

const options = z.strictObject({
  lambda: z.number().min(0).default(0).describe('ODIR: weight of the mean square off the diagonal'),
  mu: z.number().min(0).default(0).describe('ODIR: weight of the mean square of the biases'),
  maxIterations: z.int().min(1).default(100).describe('most Newton steps'),
});

/** A step whose penalty is below the square of this share of its largest change has none. */
const NO_PENALTY = 1e-8;

/** The loss plus the penalty, which is of the weights and biases of the logits as they were, before they were scaled. */
function penalised(loss: Objective, { classes, mean, deviation }: Columns, lambda: number, mu: number): Objective {
  const width = classes + 1;
  const { size } = loss;
  /** How the bias of a class depends on its parameters. */
  const byBias = Float64Array.from({ length: width }, (_, a) => (a < classes ? -mean[a]! / deviation[a]! : 1));
  const add = (x: Float64Array, gradient?: Float64Array, hessian?: Float64Array) => {
    let sum = 0;
    for (let k = 0; k < classes; k++) {
      const from = k * width;
      const bias = byBias.reduce((total, share, a) => total + share * x[from + a]!, 0);
      sum += mu * bias ** 2;
      for (let a = 0; a < width; a++) {
        const weight = a === classes || a === k ? 0 : lambda / deviation[a]! ** 2;
        sum += weight * x[from + a]! ** 2;
        if (gradient) gradient[from + a]! += 2 * (weight * x[from + a]! + mu * bias * byBias[a]!);
        if (!hessian) continue;
        hessian[(from + a) * size + from + a]! += 2 * weight;
        for (let b = 0; b <= a; b++) hessian[(from + a) * size + from + b]! += 2 * mu * byBias[a]! * byBias[b]!;
      }
    }
    return sum;
  };
  return {
    size,
    at: (x, gradient, hessian) => loss.at(x, gradient, hessian) + add(x, gradient, hessian),
    change(d, x) {
      const { largest, forever } = loss.change(d, x);
      return { largest, forever: forever && add(d) <= (NO_PENALTY * largest) ** 2 };
    },
  };
}

/**
 * Matrix scaling: softmax(W z + b) of least NLL (Guo et al. 2017), with Off-Diagonal and Intercept Regularisation (Kull
 * et al. 2019) where asked for: NLL + lambda / (K (K - 1)) * sum of W_jk^2 off the diagonal + mu / K * sum of b_j^2. Rows
 * of probabilities are taken as logits log p: Dirichlet calibration. Adding one vector to every row of W changes nothing;
 * given is the W of least penalty.
 */
export const matrix: PosthocMethod<z.output<typeof options>, MatrixScaling> = {
  about: 'softmax(W z + b), with ODIR where lambda or mu are given (Guo 2017, Kull 2019)',
  options,
  parameters: z
    .object({
      status: z.enum(STATUSES),
      classes: z.int().min(2),
      lambda: z.number().min(0),
      mu: z.number().min(0),
      weights: z.array(z.array(z.number())),
      biases: z.array(z.number()),
    })
    .refine(({ classes, weights, biases }) => [weights, biases, ...weights].every((list) => list.length === classes), {
      message: 'expected a square matrix and one bias for each class',
    }),

  fit(data, { lambda, mu, maxIterations }) {
    const columns = standardise(data);
    const { classes, mean, deviation } = columns;
    const width = classes + 1;
    const all = Array.from({ length: classes }, (_, k) => k);
    const identity = new Float64Array(classes * width);
    for (const k of all) {
      identity[k * width + k] = deviation[k]!;
      identity[k * width + classes] = mean[k]!;
    }
    const { status, x } = fitRegression(
      {
        counts: countLabels(columns),
        constant: columns.constant.every(Boolean),
        // All but, without a penalty on them, a vector added to every row and a number to every bias.
        rank: classes * width - (lambda > 0 ? 0 : classes) - (mu > 0 ? 0 : 1),
        identity,
        objective: (targets, stride) => {
          const loss = softmaxLoss(columns, all.map(() => all), targets, stride); // prettier-ignore
          if (lambda === 0 && mu === 0) return loss;
          return penalised(loss, columns, lambda / (classes * (classes - 1)), mu / classes);
        },
      },
      { maxIterations },
    );
    const scaled = all.map((j) => all.map((k) => x[j * width + k]! / deviation[k]!));
    const raw = scaled.map((row, j) => row.reduce((sum, w, k) => sum - w * mean[k]!, x[j * width + classes]!));
    const middle = raw.reduce((a, b) => a + b, 0) / classes;
    const offDiagonal = all.map(
      (k) => all.reduce((sum, j) => (j === k ? sum : sum + scaled[j]![k]!), 0) / (classes - 1),
    );
    const weights = scaled.map((row) => row.map((w, k) => w - offDiagonal[k]!));
    return { status, classes, lambda, mu, weights, biases: raw.map((b) => b - middle) };
  },

  apply({ classes, weights, biases }, row) {
    return linear(row, classes, (z) =>
      weights.map((list, j) => list.reduce((sum, w, k) => sum + w * z[k]!, biases[j]!)),
    );
  },
};
