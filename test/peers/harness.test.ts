import { execFileSync } from 'node:child_process';
import * as path from 'node:path';
import { expect, it } from 'vitest';
import { readJson } from '../../src/base/files';
import { evaluate, loadTask } from '../../src/evaluate';
import { loadModel } from '../../src/pretrained';
import { temporaryFolder } from '../model/make-files';
import { HAS_SHARED, HAS_SMOL, SHARED, SMOL } from '../shared';

/** A Python that has lm_eval: CALM_PEER_PYTHON=VENV/bin/python npx vitest run test/peers/harness.test.ts (10 minutes) */
const PYTHON = process.env['CALM_PEER_PYTHON'] ?? '';
const TASKS = ['hellaswag', 'arc_easy', 'arc_challenge', 'winogrande', 'piqa', 'openbookqa'];
const LIMIT = 200;
const folder = temporaryFolder();

interface Peer {
  scores: Record<string, Record<'acc' | 'acc_stderr', number> & { acc_norm?: number; acc_norm_stderr?: number }>;
  samples: Record<string, { requests: { loglikelihood: number; is_greedy: boolean }[] }[]>;
}

it.skipIf(!PYTHON || !HAS_SHARED || !HAS_SMOL)(
  `lm-evaluation-harness gives the same answers to ${LIMIT} items of each task (needs CALM_PEER_PYTHON)`,
  { timeout: 3_600_000 },
  async () => {
    const [data, peers] = ['data', 'peers'].map((name) => path.join(SHARED, name)) as [string, string];
    const [theirs, samples] = ['model', 'samples.json'].map((name) => path.join(folder, name)) as [string, string];
    const python = (script: string, ...args: string[]) =>
      execFileSync(PYTHON, [path.join(peers, script), ...args], { stdio: 'pipe', maxBuffer: 2 ** 28 });
    python('convert_smollm2.py', SMOL, theirs);
    const what = ['--data-dir', data, '--tasks', TASKS.join(), '--limit', String(LIMIT), '--samples-out', samples];
    python('lm_eval_local.py', theirs, ...what);
    const peer = readJson(samples) as Peer;
    const model = await loadModel('smollm2-135m-instruct');
    for (const name of TASKS) {
      const task = await loadTask(name, { data, limit: LIMIT });
      const { rows, metrics } = await evaluate(model, task, { scoring: 'continuation', resamples: 0 });
      expect(rows).toHaveLength(LIMIT);
      const requests = peer.samples[name]!.map((doc) => doc.requests);
      rows.forEach(({ logprobs, is_greedy }, i) => {
        requests[i]!.forEach(({ loglikelihood }, k) => {
          expect(Math.abs(logprobs[k]! - loglikelihood), `${name} ${i}`).toBeLessThan(1e-3);
        });
        expect(is_greedy, `${name} ${i}`).toEqual(requests[i]!.map((request) => request.is_greedy));
      });
      const { acc, acc_norm } = peer.scores[name]!;
      expect(metrics['accuracy']!.value, name).toBe(acc);
      if (acc_norm !== undefined) expect(metrics['acc_norm']!.value, name).toBe(acc_norm);
    }
    model.dispose();
  },
);
