import * as fs from 'node:fs';
import * as path from 'node:path';
import { checkPlan, type CheckedPlan, type Plan } from '../../src/experiments/plan';
import { writeJsonl, writeTinyFolder } from '../evaluate/tiny-folder';

const question = (i: number) => ({
  id: `q${i}`,
  question: `What is ${i}?`,
  choices: ['this', 'that', 'it'],
  answer: i % 3,
});
const questions = (from: number, count: number) => Array.from({ length: count }, (_, i) => question(from + i));
export const SMALL = { epochs: 2, outerPerEpoch: 2, innerSteps: 2, batch: 4, rank: 3, warmupEpochs: 0 };

/** A plan on a tiny model and a few questions, all written into a folder. */
export function tinyPlan(folder: string, changes: Partial<Plan> = {}): CheckedPlan {
  if (!fs.existsSync(path.join(folder, 'tiny'))) {
    writeTinyFolder(path.join(folder, 'tiny'));
    writeJsonl(path.join(folder, 'train.jsonl'), questions(0, 24));
    writeJsonl(path.join(folder, 'valid.jsonl'), questions(100, 12));
    writeJsonl(path.join(folder, 'test.jsonl'), questions(200, 12));
  }
  const plan: Plan = {
    name: 'tiny',
    model: 'tiny',
    settings: { id: { train: 'train.jsonl', validation: 'valid.jsonl', test: 'test.jsonl' } },
    methods: ['baseline', 'ts', { method: 'calm', options: SMALL }],
    resamples: 20,
  };
  return checkPlan({ ...plan, ...changes }, 'the plan', folder);
}
