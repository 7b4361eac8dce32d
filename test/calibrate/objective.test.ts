import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine, tf, type Tensor1D } from '../../src/engine/backend';
import { dispose, map } from '../../src/engine/tree';
import { crossEntropy, negativeEntropy } from '../../src/calibrate/criterion';
import { clipHead, type Head } from '../../src/calibrate/head';
import { objective, type ObjectiveOptions } from '../../src/calibrate/objective';
import { readAdapter, type Adapter } from '../../src/model';
import { openSafetensors } from '../../src/model/safetensors';
import { addScaled, bomeStep, type BilevelProblem } from '../../src/train/bome';
import type { Example } from '../../src/train/examples';
import { loadWeights } from '../model/load-weights';
import { byPeftName, float64 } from '../model/peft-names';
import { HAS_SHARED, maxAbsDifference, SHARED, sharedJson } from '../shared';

interface Batch {
  input_ids: number[][];
  attention_mask: number[][];
  response_mask?: number[][];
  answer_position?: number[];
  y?: number[];
}

interface Outer {
  inner: { loss: number }[];
  L_tr_theta_k: number;
  L_tr_theta_tilde: number;
  q_hat: number;
  L_ent: number;
  g_q_norm_sq: number;
  dot_gq_gent: number;
  phi: number;
  lambda_: number;
  n_clipped: number;
}

interface Case {
  id: string;
  model: string;
  adapter: string;
  mode: 'lm' | 'choice' | 'choice_full';
  choice_ids: number[] | null;
  reduction: 'token_mean' | 'example_mean';
  gq_alpha: 'danskin' | 'frozen';
  T: number;
  K: number;
  rho: number;
  eta_theta: number;
  eta_alpha: number;
  gamma: number;
  clip: boolean;
  train: Batch;
  val: Batch;
  d0: number[];
  l0: number[];
  outer: Outer[];
  tensors: string;
}

beforeAll(startEngine);

/** Texts without their padding; the logits before a response token, or at the answer's position, are supervised. */
function examples({ mode, choice_ids }: Case, batch: Batch): Example[] {
  return batch.input_ids.map((row, i) => {
    const ids = row.slice(0, batch.attention_mask[i]!.filter((m) => m === 1).length);
    if (mode === 'lm') {
      const positions = ids.flatMap((_, t) => (batch.response_mask![i]![t] === 1 ? [t - 1] : []));
      return { ids, positions, labels: positions.map((t) => ids[t + 1]!) };
    }
    const y = batch.y![i]!;
    return { ids, positions: [batch.answer_position![i]!], labels: [mode === 'choice' ? y : choice_ids![y]!] };
  });
}

describe.skipIf(!HAS_SHARED)('outer iterations of CALM against the reference in float64 (needs ../shared)', () => {
  const { cases } = HAS_SHARED
    ? sharedJson<{ cases: Case[] }>('oracle', 'calm', 'public.json')
    : { cases: [] as Case[] };
  it.each(cases.map((c) => [c.id, c] as const))('%s: every number of every iteration', (_id, c) => {
    const oracle = path.join(SHARED, 'oracle');
    const model = loadWeights(path.join(oracle, c.model));
    const { config: lora, blocks } = readAdapter(path.join(oracle, c.adapter), model.config);
    const reference = openSafetensors(path.join(oracle, 'calm', c.tensors));
    const options: ObjectiveOptions = {
      choices: c.mode === 'choice' ? Int32Array.from(c.choice_ids!) : undefined,
      reduction: c.reduction === 'token_mean' ? 'token' : 'example',
    };
    const [train, validation] = [examples(c, c.train), examples(c, c.val)];
    let theta: Adapter['blocks'] = blocks;
    let alpha: Head = { d: tf.tensor1d(c.d0), l: tf.tensor1d(c.l0) };
    const at = (head: Head, adapter: Adapter['blocks']) => ({ head, adapter: { config: lora, blocks: adapter } });
    const thetaTilde: Adapter['blocks'][] = [];
    const problem: BilevelProblem = {
      lower: (head, adapter, _batch, wanted) => {
        if (!wanted.theta) thetaTilde.push(map(adapter as Adapter['blocks'], (t) => tf.clone(t)));
        const state = at(head as Head, adapter as Adapter['blocks']);
        return objective(crossEntropy, model, state, train, wanted, options);
      },
      upper: (head, adapter) => {
        const both = { alpha: true, theta: true };
        return objective(
          negativeEntropy,
          model,
          at(head as Head, adapter as Adapter['blocks']),
          validation,
          both,
          options,
        );
      },
    };
    const near = (got: number, right: number, what: string) =>
      expect(Math.abs(got - right), what).toBeLessThan(1e-5 + 1e-4 * Math.abs(right));
    const same = (name: string, got: Float32Array, tolerance: number) =>
      expect(maxAbsDifference(got, float64(reference.read(name))), name).toBeLessThan(tolerance);
    const sameTree = (prefix: string, tree: Adapter['blocks'], tolerance: number) => {
      const found = byPeftName(tree, model.config);
      expect(found.size).toBe(2 * 7 * model.config.layers);
      for (const [name, values] of found) same(`${prefix}.${name}`, values, tolerance);
    };

    c.outer.forEach((right, k) => {
      const step = bomeStep(problem, alpha, theta, {
        innerSteps: c.T,
        innerRate: c.rho,
        gamma: c.gamma,
        residual: c.gq_alpha,
      });
      right.inner.forEach(({ loss }, t) => near(step.innerLosses[t]!, loss, `inner loss ${t}`));
      near(step.innerLosses[0]!, right.L_tr_theta_k, 'L_tr');
      near(step.residual, right.q_hat, 'q');
      near(step.upperLoss, right.L_ent, 'L_ent');
      near(step.residualNormSquared, right.g_q_norm_sq, '|g_q|^2');
      near(step.dot, right.dot_gq_gent, 'dot');
      near(step.phi, right.phi, 'phi');
      if (right.lambda_ === 0) expect(step.lambda).toBe(0);
      else near(step.lambda, right.lambda_, 'lambda');
      const direction = step.direction as { alpha: Head; theta: Adapter['blocks'] };
      same(`k${k}.dir_d`, direction.alpha.d.dataSync<'float32'>(), 1e-4);
      same(`k${k}.dir_l`, direction.alpha.l.dataSync<'float32'>(), 1e-4);
      if (c.T > 0) sameTree(`k${k}.theta_tilde`, thetaTilde[k]!, 5e-6);

      const clip = (t: Tensor1D) => tf.clipByValue(t, -10, 10);
      const moved = addScaled(alpha, direction.alpha, -c.eta_alpha) as Head;
      alpha = c.clip ? clipHead(moved) : moved;
      theta = map(addScaled(theta, direction.theta, -c.eta_theta) as Adapter['blocks'], (t) => clip(t as Tensor1D));
      same(`k${k}.d_next`, alpha.d.dataSync<'float32'>(), 5e-6);
      same(`k${k}.l_next`, alpha.l.dataSync<'float32'>(), 5e-6);
      sameTree(`k${k}.theta_next`, theta, 5e-6);
      dispose(step.direction);
    });
    reference.close();
  });
});
