import { z } from 'zod';
import { applyMaps, constructionOption, fitMaps, type Mapped, mappedSchema } from './construction';
import { fitLogistic, sigmoid } from './logistic';
import { type PosthocMethod, type PosthocStatus, STATUSES } from './method';

/** q = sigmoid(slope * log(p / (1 - p)) + intercept). */
export interface PlattMap {
  status: PosthocStatus;
  slope: number;
  intercept: number;
}

const options = z.strictObject({
  construction: constructionOption,
  targets: z
    .enum(['labels', 'smoothed'])
    .default('labels')
    .describe('smoothed: (N + 1) / (N + 2) for 1, 1 / (N + 2) for 0 (Platt 1999)'),
  maxIterations: z.int().min(1).default(100).describe('most Newton steps'),
});

/**
 * Platt scaling (Platt 1999) of log-odds: logistic regression, of least NLL, on log(p / (1 - p)), which contains the
 * identity; of two classes that is z_1 - z_0. See `Construction` for how maps make a probability vector.
 */
export const platt: PosthocMethod<z.output<typeof options>, Mapped<PlattMap>> = {
  about: 'sigmoid(a * log-odds + b) (Platt 1999)',
  options,
  parameters: mappedSchema(z.object({ status: z.enum(STATUSES), slope: z.number(), intercept: z.number() })),

  fit(data, { construction, ...options }) {
    return fitMaps(data, construction, 'logs', ({ scores: [log, rest], outcomes }) => {
      const odds = Float64Array.from(log);
      for (let i = 0; i < odds.length; i++) odds[i]! -= rest![i]!;
      const { status, weights, intercept } = fitLogistic([odds], outcomes, options);
      return { status, slope: weights[0]!, intercept };
    });
  },

  apply(parameters, row) {
    return applyMaps(parameters, row, 'logs', ({ slope, intercept }, other, log, rest) =>
      sigmoid(slope * (log - rest) + intercept, other),
    );
  },
};
