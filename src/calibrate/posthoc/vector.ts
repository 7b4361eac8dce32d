import { z } from 'zod';
import { type PosthocMethod, type PosthocStatus, STATUSES } from './method';
import { fitRegression } from './regression';
import { linear } from './rows';
import { countLabels, softmaxLoss, standardise } from './softmax-regression';

export interface VectorScaling {
  status: PosthocStatus;
  classes: number;
  /** One factor a class. */
  weights: number[];
  /** One number added to each class; they sum to 0. */
  biases: number[];
}

const options = z.strictObject({
  maxIterations: z.int().min(1).default(100).describe('most Newton steps'),
});

/**
 * Vector scaling (Guo et al. 2017): softmax(w * z + b), a factor and a bias for each class, of least NLL. Of the logits
 * as they are given (adding a constant to a row's changes the result); rows of probabilities are taken as logits log p.
 */
export const vector: PosthocMethod<z.output<typeof options>, VectorScaling> = {
  about: 'softmax(w * z + b), a factor and a bias for each class (Guo 2017)',
  options,
  parameters: z
    .object({
      status: z.enum(STATUSES),
      classes: z.int().min(2),
      weights: z.array(z.number()),
      biases: z.array(z.number()),
    })
    .refine(({ classes, weights, biases }) => weights.length === classes && biases.length === classes, {
      message: 'expected one weight and one bias for each class',
    }),

  fit(data, { maxIterations }) {
    const columns = standardise(data);
    const { classes, mean, deviation } = columns;
    const inputs = Array.from({ length: classes }, (_, k) => [k]);
    const { status, x } = fitRegression(
      {
        counts: countLabels(columns),
        constant: columns.constant.every(Boolean),
        rank: 2 * classes - 1, // all but a number added to every bias
        identity: Float64Array.from(inputs.flatMap(([k]) => [deviation[k!]!, mean[k!]!])),
        objective: (targets, stride) => softmaxLoss(columns, inputs, targets, stride),
      },
      { maxIterations },
    );
    const weights = inputs.map((_, k) => x[2 * k]! / deviation[k]!);
    const biases = inputs.map((_, k) => x[2 * k + 1]! - weights[k]! * mean[k]!);
    const middle = biases.reduce((a, b) => a + b, 0) / classes;
    return { status, classes, weights, biases: biases.map((b) => b - middle) };
  },

  apply({ classes, weights, biases }, row) {
    return linear(row, classes, (z) => z.map((value, k) => weights[k]! * value + biases[k]!));
  },
};
