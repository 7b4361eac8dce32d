import { z } from 'zod';
import { softmax } from '../../metrics';
import { fitChecked, type TemperatureStatus } from '../temperature';
import { type PosthocMethod, type PosthocStatus, STATUSES, type Uncalibrated } from './method';
import { independent, minimise, type Objective } from './newton';
import { probsOf, rowAt } from './rows';

export interface EnsembleTemperature {
  status: PosthocStatus;
  /** The applied temperature of `fitTemperature`, and how that ended. */
  temperature: number;
  temperature_status: TemperatureStatus;
  /** Of softmax(z / T), softmax(z) and 1 / K; at least 0, and their sum is 1. */
  weights: number[];
}

const options = z.strictObject({
  maxIterations: z.int().min(1).default(100).describe('most Newton steps'),
});

/** Logits of a row; a probability of 0 stays 0 at every temperature, as in temperature scaling. */
const logits = (row: Uncalibrated) => ('logits' in row ? row.logits : row.probs.map((p) => Math.log(p)));

/** The label's softmax(z / T). */
function labelProb(z: readonly number[], label: number, temperature: number): number {
  let [max, sum] = [-Infinity, 0];
  for (const value of z) max = Math.max(max, value);
  for (const value of z) sum += Math.exp((value - max) / temperature);
  return Math.exp((z[label]! - max) / temperature) / sum;
}

/**
 * -mean log(a_i . w) + sum of w - 1, whose minimum over w >= 0 lies where w sums to 1: the sum takes the place of the
 * constraint. Row i of a is what the three give the label; the last of them, 1 / K, is never 0.
 */
function mixtureLoss(given: Float64Array): Objective {
  const n = given.length / 3;
  const mix = (w: Float64Array, i: number) => w[0]! * given[i]! + w[1]! * given[i + 1]! + w[2]! * given[i + 2]!;
  return {
    size: 3,
    at(w, gradient, hessian) {
      let value = 0;
      gradient?.fill(0);
      for (let i = 0; i < given.length; i += 3) {
        const q = mix(w, i);
        value -= Math.log(q);
        for (let a = 0; a < 3 && gradient && hessian; a++) {
          const share = given[i + a]! / q;
          gradient[a]! -= share;
          for (let b = 0; b <= a; b++) hessian[a * 3 + b]! += (share * given[i + b]!) / q;
        }
      }
      gradient?.forEach((sum, a) => (gradient[a] = 1 + sum / n));
      hessian?.forEach((sum, a) => (hessian[a] = sum / n));
      return value / n + w[0]! + w[1]! + w[2]! - 1;
    },
    change(d, w) {
      let largest = 0;
      for (let i = 0; i < given.length; i += 3) largest = Math.max(largest, Math.abs(mix(d, i) / mix(w, i)));
      return { largest, forever: false };
    },
  };
}

/**
 * Ensemble temperature scaling (Zhang et al. 2020): w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K. As in the authors'
 * code T is that of temperature scaling, and the weights, at least 0 and of sum 1, are then those of least NLL (of which
 * and squared error their code has the choice). Rows may differ in length.
 */
export const ets: PosthocMethod<z.output<typeof options>, EnsembleTemperature> = {
  about: 'w1 softmax(z / T) + w2 softmax(z) + w3 / K (Zhang 2020)',
  options,
  parameters: z
    .object({
      status: z.enum(STATUSES),
      temperature: z.number().positive(),
      temperature_status: z.enum(['finite', 'at-zero', 'at-infinity', 'not-converged', 'no-support']),
      weights: z.array(z.number().min(0)).length(3),
    })
    .refine(({ weights }) => Math.abs(weights.reduce((a, b) => a + b, 0) - 1) < 1e-9, { message: 'weights sum to 1' }),

  fit(data, { maxIterations }) {
    const { labels } = data.predictions;
    const scaling = fitChecked(data.predictions, { where: data.where });
    const temperature = scaling.applied_temperature;
    const given = new Float64Array(3 * labels.length);
    labels.forEach((label, i) => {
      const z = logits(rowAt(data, i));
      given[3 * i] = labelProb(z, label, temperature);
      given[3 * i + 1] = labelProb(z, label, 1);
      given[3 * i + 2] = 1 / z.length;
    });
    const loss = mixtureLoss(given);
    const even = new Float64Array(3).fill(1 / 3);
    const found = minimise(loss, even, { lower: [0, 0, 0], maxIterations });
    const hessian = new Float64Array(9);
    loss.at(even, new Float64Array(3), hessian);
    const unchanged = new Float64Array([0, 1, 0]);
    const cutShort = found.status !== 'converged' && !(loss.at(found.x) <= loss.at(unchanged));
    const weights = cutShort ? unchanged : found.x;
    const sum = weights.reduce((a, b) => a + b, 0);
    const status = (): PosthocStatus => {
      if (found.status !== 'converged' || scaling.status === 'not-converged') return 'not-converged';
      return independent(hessian, 3).length < 3 ? 'under-determined' : 'converged';
    };
    return {
      status: status(),
      temperature,
      temperature_status: scaling.status,
      weights: Array.from(weights, (w) => w / sum),
    };
  },

  apply({ temperature, weights }, row) {
    const scaled = softmax(logits(row), temperature);
    const plain = probsOf(row);
    const sum = plain.reduce((a, b) => a + b, 0); // of given probabilities 1 to within 1e-6
    return {
      probs: plain.map((p, k) => weights[0]! * scaled[k]! + (weights[1]! * p) / sum + weights[2]! / plain.length),
    };
  },
};
