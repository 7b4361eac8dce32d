import { z } from 'zod';
import { applyMaps, constructionOption, fitMaps, type Mapped, mappedSchema } from './construction';
import { fitLogistic, sigmoid } from './logistic';
import { type PosthocMethod, type PosthocStatus, STATUSES } from './method';

/** q = sigmoid(a log p - b log(1 - p) + c), with a and b at least 0. */
export interface BetaMap {
  status: PosthocStatus;
  a: number;
  b: number;
  c: number;
}

const options = z.strictObject({
  construction: constructionOption,
  maxIterations: z.int().min(1).default(100).describe('most Newton steps'),
});

/**
 * Beta calibration (Kull et al. 2017): logistic regression, of least NLL, on log p and -log(1 - p), whose weights are kept
 * from being negative so that the map rises; a = b = 1, c = 0 is the identity. See `Construction` for how maps make a
 * probability vector.
 */
export const beta: PosthocMethod<z.output<typeof options>, Mapped<BetaMap>> = {
  about: 'sigmoid(a log p - b log(1 - p) + c) with a, b >= 0 (Kull 2017)',
  options,
  parameters: mappedSchema(
    z.object({ status: z.enum(STATUSES), a: z.number().min(0), b: z.number().min(0), c: z.number() }),
  ),

  fit(data, { construction, ...options }) {
    return fitMaps(data, construction, 'logs', ({ scores: [log, rest], outcomes }) => {
      const falling = rest!.map((value) => -value);
      const { status, weights, intercept } = fitLogistic([log, falling], outcomes, { ...options, nonnegative: true });
      return { status, a: weights[0]!, b: weights[1]!, c: intercept };
    });
  },

  apply(parameters, row) {
    return applyMaps(parameters, row, 'logs', ({ a, b, c }, other, log, rest) =>
      sigmoid(a * log - b * rest + c, other),
    );
  },
};
