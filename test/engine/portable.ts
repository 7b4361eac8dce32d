import { startEngine, tf, type EngineInfo } from '../../src/engine/backend';
import { generate } from '../../src/model/generate';
import { lastLogits, scoreContinuations } from '../../src/model/score';
import { tinyModel } from '../model/tiny-model';
import { opsCases } from './ops-cases';

/** What every engine must give alike: the ops, and a whole model's logits, scores and text. */
export interface EngineResults {
  info: EngineInfo;
  ops: number[][];
  logits: number[][];
  logProbs: number[];
  text: number[][];
}

export async function engineResults(): Promise<EngineResults> {
  const info = await startEngine();
  const ops = [0, 1, 2].flatMap(opsCases).map(({ run }) => tf.tidy(() => Array.from(run().dataSync())));
  const model = tinyModel();
  const prompts = [[1, 2, 3, 4, 5, 6], [7], [8, 9, 10]];
  const scores = scoreContinuations(model, [
    { context: [1, 2, 3], continuation: [4, 5] },
    { context: [1, 2, 3], continuation: [6] },
    { context: [7], continuation: [8] },
  ]);
  return {
    info,
    ops,
    logits: lastLogits(model, prompts).map((row) => Array.from(row)),
    logProbs: scores.flatMap((s) => s.tokenLogProbs),
    text: generate(model, prompts, { maxNewTokens: 8 }).map(([one]) => one!.ids),
  };
}
