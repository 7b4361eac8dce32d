import * as path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { Random } from '../../src/engine/random';
import { evaluate, loadTask, type Task } from '../../src/evaluate';
import { drawExamples } from '../../src/evaluate/few-shot';
import { continuationRequests } from '../../src/evaluate/score';
import { loadModel, loadTokenizer, type LanguageModel } from '../../src/pretrained';
import { HAS_SMOL } from '../shared';
import fixture from '../fixtures/harness/lm-eval.json';

interface Recorded {
  task: string;
  topic?: string;
  shots: number;
  chat?: 'single' | 'multiturn';
  system?: string;
  acc: number;
  acc_norm?: number;
  acc_stderr: number | null;
  acc_norm_stderr?: number | null;
  docs: { context: string; continuation: string; logprob: number; is_greedy: boolean }[][];
}

// What lm-evaluation-harness itself asked and answered about rows written for this project (record_harness.py). Its MMLU
// is a task a subject, ours one task with topics.
const data = path.join(__dirname, '../fixtures/harness');
const recorded = fixture.tasks as Recorded[];
const optionsOf = ({ chat, system }: Recorded) => ({
  scoring: 'continuation' as const,
  chat: chat === 'multiturn' ? chat : chat === 'single',
  ...(system !== undefined && { system }),
});

async function load({ task: name, topic, shots }: Recorded): Promise<Task> {
  const task = await loadTask(name, { data, shots });
  return topic === undefined ? task : { ...task, docs: task.docs.filter((doc) => doc.topic === topic) };
}

describe.skipIf(!HAS_SMOL)('the tokenizer and template of SmolLM2', () => {
  const smol = HAS_SMOL ? { tokenizer: loadTokenizer('smollm2-135m-instruct') } : (undefined as never);

  it.each(recorded)('asks $task $topic, $shots shots, chat $chat, as lm-evaluation-harness does', async (which) => {
    const task = await load(which);
    const examples = drawExamples(task, Random.seed(0));
    const asked = task.docs.map((doc, i) => continuationRequests(smol, task, doc, examples[i]!, optionsOf(which)));
    const pairs = (rows: { context: string; continuation: string }[][]) =>
      rows.map((row) => row.map(({ context, continuation }) => [context, continuation]));
    expect(pairs(asked)).toEqual(pairs(which.docs));
  });
});

describe.skipIf(!HAS_SMOL)('SmolLM2', () => {
  let smol: LanguageModel;
  beforeAll(async () => {
    smol = await loadModel('smollm2-135m-instruct');
    return () => smol.dispose();
  });

  it.each(recorded)('answers $task $topic, $shots shots, chat $chat, as it does there', async (which) => {
    const { rows, metrics } = await evaluate(smol, await load(which), { ...optionsOf(which), resamples: 0 });
    rows.forEach(({ logprobs, is_greedy }, i) => {
      const docs = which.docs[i]!;
      docs.forEach(({ logprob }, k) => expect(Math.abs(logprobs[k]! - logprob)).toBeLessThan(1e-3));
      expect(is_greedy).toEqual(docs.map((request) => request.is_greedy));
    });
    const { acc, acc_stderr, acc_norm, acc_norm_stderr } = which;
    expect(metrics['accuracy']).toMatchObject({ value: acc });
    if (acc_stderr !== null) expect(metrics['accuracy']!.stderr).toBeCloseTo(acc_stderr, 12);
    if (acc_norm !== undefined) {
      expect(metrics['acc_norm']!.value).toBe(acc_norm);
      expect(metrics['acc_norm']!.stderr).toBeCloseTo(acc_norm_stderr!, 12);
    }
  });
});
