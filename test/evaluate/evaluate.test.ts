import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import { setQuiet } from '../../src/base/progress';
import { applyPosthoc, fitPosthoc } from '../../src/calibrate';
import type { ChoiceQuestion } from '../../src/data';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { evaluate, loadTask, withPosthoc, withTemperature, type Result, type Task } from '../../src/evaluate';
import { argmax, logSoftmax, softmax } from '../../src/metrics';
import { lastLogits, scoreContinuations } from '../../src/model';
import { loadModel, renderMessages, type LanguageModel } from '../../src/pretrained';
import { temporaryFolder } from '../model/make-files';
import { HAS_SMOL } from '../shared';
import { BOS, writeTinyFolder } from './tiny-folder';

const TEMPLATE =
  '{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}';

const folder = temporaryFolder();
let model: LanguageModel;
let short: LanguageModel; // reads 64 bytes at most
beforeAll(async () => {
  setQuiet(true);
  model = await loadModel(writeTinyFolder(path.join(folder, 'tiny'), { addBos: true, chatTemplate: TEMPLATE }));
  short = await loadModel(writeTinyFolder(path.join(folder, 'short'), { maxPositions: 64 }));
});
afterAll(() => {
  model.dispose();
  short.dispose();
});

/** Questions with 2 to 26 options of various lengths. */
const DOCS: ChoiceQuestion[] = [2, 3, 4, 26, 2, 7].map((count, i) => ({
  id: `q${i}`,
  question: `${'Well, '.repeat(i)}what is ${i}?`,
  choices: Array.from({ length: count }, (_, k) => `${'é'.repeat(k % 3)}option${k}`),
  answer: i % count,
}));

function task(docs: readonly ChoiceQuestion[] = DOCS, more: Partial<Task> = {}): Task {
  const prompt = ({ question }: ChoiceQuestion) => `Question: ${question}\nAnswer:`;
  return { name: 'mine', version: 1, source: 'mine.jsonl', split: 'test', docs, skipped: [], prompt, ...more };
}

const QUICK = { resamples: 0 } as const;
const close = (a: readonly number[], b: readonly number[], within: number) => {
  expect(a).toHaveLength(b.length);
  a.forEach((x, i) => expect(Math.abs(x - b[i]!)).toBeLessThan(within));
};

/** The log-probability of each option after a prompt, one sequence at a time. */
function byItself(by: LanguageModel, prompt: string, choices: readonly string[]): number[] {
  return choices.map((choice) => {
    const context = by.tokenizer.encode(prompt);
    const continuation = by.tokenizer.encode(` ${choice}`, { addBos: false });
    const [score] = scoreContinuations(by, [{ context, continuation }]);
    return score!.tokenLogProbs.reduce((a, b) => a + b, 0);
  });
}

describe('evaluate by letter', () => {
  it('is the softmax over the letters of the logits after the prompt, for 2 to 26 options', async () => {
    const { rows } = await evaluate(model, task(), QUICK);
    expect(rows.map((r) => r.doc_id)).toEqual(DOCS.map((d) => d.id));
    rows.forEach((row, i) => {
      const { question, choices, answer } = DOCS[i]!;
      const listed = choices.map((choice, k) => `${String.fromCharCode(65 + k)}. ${choice}\n`).join('');
      const prompt = model.tokenizer.encode(`${question}\n${listed}Answer:`);
      expect(prompt[0]).toBe(BOS);
      const [logits] = lastLogits(model, [prompt]) as [Float32Array];
      const own = choices.map((_, k) => logits[model.tokenizer.idOf(`Ġ${String.fromCharCode(65 + k)}`)!]!);
      close(row.logprobs, logSoftmax(own), 1e-4);
      close(row.probs, softmax(own), 1e-4);
      expect([row.prediction, row.label]).toEqual([argmax(own), answer]);
      expect(row.correct).toBe(row.prediction === answer);
    });
  });

  it('has no normalisation', async () => {
    await expect(evaluate(model, task(), { normalisation: 'byte' })).rejects.toThrow(UsageError);
  });

  it('refuses what it does not know', async () => {
    const unknown = (options: object) => evaluate(model, task(), options);
    await expect(unknown({ scoring: 'leter' })).rejects.toThrow('unknown scoring "leter"');
    await expect(unknown({ scoring: 'cloze', normalisation: 'bytes' })).rejects.toThrow('unknown normalisation');
    await expect(evaluate(model, task([]), QUICK)).rejects.toThrow('has no usable questions');
  });
});

describe('evaluate by cloze', () => {
  it('is the softmax over the summed log-probabilities of the options', async () => {
    const { rows } = await evaluate(model, task(), { ...QUICK, scoring: 'cloze' });
    rows.forEach((row, i) => {
      const { question, choices } = DOCS[i]!;
      const right = byItself(model, `Question: ${question}\nAnswer:`, choices);
      close(row.logprobs, right, 1e-4);
      close(row.probs, softmax(right), 1e-4);
      expect(row.raw_logprobs).toBeUndefined();
    });
  });

  it('E-3, E-20: normalises by token or byte, decides by that, and records the sums too', async () => {
    const cloze = { ...QUICK, scoring: 'cloze' } as const;
    const { rows: plain } = await evaluate(model, task(), cloze);
    const { rows: byByte } = await evaluate(model, task(), { ...cloze, normalisation: 'byte' });
    const { rows: byToken } = await evaluate(model, task(), { ...cloze, normalisation: 'token' });
    plain.forEach(({ logprobs }, i) => {
      const { choices } = DOCS[i]!;
      const bytes = choices.map((choice) => Buffer.byteLength(choice)); // "é" is two
      close(byByte[i]!.logprobs, logprobs.map((lp, k) => lp / bytes[k]!), 1e-5); // prettier-ignore
      close(byToken[i]!.logprobs, logprobs.map((lp, k) => lp / (bytes[k]! + 1)), 1e-5); // prettier-ignore
      for (const { raw_logprobs, logprobs: decided, prediction } of [byByte[i]!, byToken[i]!]) {
        close(raw_logprobs!, logprobs, 1e-5);
        expect(prediction).toBe(argmax(decided));
      }
    });
    expect(byByte.some((row, i) => row.prediction !== plain[i]!.prediction)).toBe(true);
  });

  it('as continuation: the same, and accuracy by characters beside it', async () => {
    // One emoji is one character for Python, and two for JavaScript.
    const docs = DOCS.map((doc) => ({ ...doc, choices: doc.choices.map((c, k) => (k % 2 ? `😀😀😀${c}` : c)) }));
    const cloze = await evaluate(model, task(docs), { ...QUICK, scoring: 'cloze' });
    const both = await evaluate(model, task(docs), { ...QUICK, scoring: 'continuation', normalisation: 'byte' });
    const norm = cloze.rows.map(({ logprobs }, i) =>
      argmax(logprobs.map((lp, k) => lp / Array.from(docs[i]!.choices[k]!).length)),
    );
    expect(both.rows.map((r) => r.prediction_norm)).toEqual(norm);
    const bytes = cloze.rows.map(({ logprobs }, i) =>
      argmax(logprobs.map((lp, k) => lp / new TextEncoder().encode(docs[i]!.choices[k]).length)),
    );
    expect(both.rows.map((r) => r.prediction_bytes)).toEqual(bytes);
    expect(bytes).not.toEqual(norm); // E-3: two metrics, each under its name
    const right = (predictions: number[]) => predictions.filter((p, i) => p === docs[i]!.answer).length / docs.length;
    expect(both.metrics['acc_norm']!.value).toBeCloseTo(right(norm), 12);
    expect(both.metrics['acc_bytes']!.value).toBeCloseTo(right(bytes), 12);
    expect(cloze.metrics['acc_norm']).toBeUndefined();
  });
});

describe('evaluate', () => {
  it.each(['letter', 'cloze'] as const)('E-13: %s does not depend on the batch or on the order', async (scoring) => {
    const { rows } = await evaluate(model, task(), { ...QUICK, scoring, batchTokens: 1 });
    for (const batchTokens of [100, 100_000]) {
      const order = Random.seed(batchTokens).shuffle([...DOCS.keys()]);
      const other = await evaluate(model, task(order.map((i) => DOCS[i]!)), { ...QUICK, scoring, batchTokens });
      other.rows.forEach((row, at) => {
        close(row.logprobs, rows[order[at]!]!.logprobs, 1e-5);
        expect(row.prediction).toBe(rows[order[at]!]!.prediction);
        expect(row.prompt_hash).toBe(rows[order[at]!]!.prompt_hash);
      });
    }
  });

  it('E-11: asks through the chat template, with one BOS', async () => {
    const prompt = (doc: ChoiceQuestion) => `Question: ${doc.question}\nAnswer:`;
    const { rows } = await evaluate(model, task(), { ...QUICK, scoring: 'cloze', chat: true });
    const text = `<s><user>${prompt(DOCS[0]!)}\n<assistant>\n`;
    expect(renderMessages(model, [{ role: 'user', content: prompt(DOCS[0]!) }])).toBe(text);
    const ids = [BOS, ...Buffer.from(`<user>Question: what is 0?\nAnswer:\n<assistant>\n`)];
    expect(model.tokenizer.encode(text)).toEqual(ids);
    // After a line break no blank; the break itself is scored with the option, as lm-evaluation-harness does.
    const continuations = DOCS[0]!.choices.map((choice) => [...Buffer.from(`\n${choice}`)]);
    const context = ids.slice(0, -1);
    const scores = scoreContinuations(model, continuations.map((continuation) => ({ context, continuation }))); // prettier-ignore
    close(rows[0]!.logprobs, scores.map((s) => s.tokenLogProbs.reduce((a, b) => a + b, 0)), 1e-4); // prettier-ignore
    const plain = await evaluate(model, task(), { ...QUICK, scoring: 'cloze' });
    expect(rows[0]!.prompt_hash).not.toBe(plain.rows[0]!.prompt_hash);
    await expect(evaluate(short, task(), { chat: true })).rejects.toThrow('no chat template');
  });

  it('E-17: puts examples with their answers before each question, by letter and by cloze', async () => {
    const [asked, example] = [DOCS[0]!, DOCS[1]!];
    const shots = task([asked], { fewShot: { shots: 1, split: 'train', pool: [asked, example] } });
    const letter = await evaluate(model, shots, QUICK);
    const cloze = await evaluate(model, shots, { ...QUICK, scoring: 'cloze' });
    expect([letter.shots, cloze.shots]).toEqual([1, 1]);
    const first = 'Well, what is 1?\nA. option0\nB. éoption1\nC. ééoption2\nAnswer: B\n\n';
    const [logits] = lastLogits(model, [
      model.tokenizer.encode(`${first}what is 0?\nA. option0\nB. éoption1\nAnswer:`),
    ]) as [Float32Array];
    close(letter.rows[0]!.logprobs, logSoftmax([logits[258]!, logits[259]!]), 1e-4);
    const before = 'Question: Well, what is 1?\nAnswer: éoption1\n\nQuestion: what is 0?\nAnswer:';
    close(cloze.rows[0]!.logprobs, byItself(model, before, asked.choices), 1e-4);
    const none = await evaluate(model, task([asked]), QUICK);
    expect(none.shots).toBe(0);
    expect(none.rows[0]!.prompt_hash).not.toBe(letter.rows[0]!.prompt_hash);
    const tooMany = task([asked], { fewShot: { shots: 2, split: 'train', pool: [asked, example] } });
    await expect(evaluate(model, tooMany, QUICK)).rejects.toThrow('2 examples cannot be drawn from the 1 other');
  });

  it('E-17: draws examples by the seed', async () => {
    const pool = Array.from({ length: 30 }, (_, i) => ({ ...DOCS[0]!, id: `p${i}`, question: `Is ${i} odd?` }));
    const hashes = async (seed: number) => {
      const asked = task(DOCS, { fewShot: { shots: 3, split: 'train', pool } });
      return (await evaluate(model, asked, { ...QUICK, seed })).rows.map((row) => row.prompt_hash);
    };
    expect(await hashes(1)).toEqual(await hashes(1));
    expect(await hashes(1)).not.toEqual(await hashes(2));
  });

  it('E-6: counts the prompts that are cut, or refuses them', async () => {
    const long = { ...DOCS[0]!, id: 'long', question: `${'x'.repeat(80)}?` };
    for (const scoring of ['letter', 'cloze'] as const) {
      const docs = [DOCS[0]!, long];
      const result = await evaluate(short, task(docs), { ...QUICK, scoring });
      expect([result.n, result.truncated, result.invalid]).toEqual([2, 1, 0]);
      expect(result.rows.map((row) => row.truncated > 0)).toEqual([false, true]);
      await expect(evaluate(short, task(docs), { ...QUICK, scoring, truncation: 'error' })).rejects.toThrow(
        "1 prompts of mine (long) exceed the model's 64 tokens",
      );
      await evaluate(short, task([DOCS[0]!]), { ...QUICK, scoring, truncation: 'error' });
    }
  });

  it('E-8: leaves out a question whose option exceeds the context, and counts it', async () => {
    const long = { ...DOCS[0]!, id: 'long', choices: ['short', 'y'.repeat(100)] };
    const result = await evaluate(short, task([DOCS[0]!, long]), { ...QUICK, scoring: 'cloze' });
    expect([result.n, result.invalid, result.rows.length]).toEqual([1, 1, 1]);
    expect(result.excluded).toEqual([{ doc_id: 'long', reason: "an option by itself exceeds the model's 64 tokens" }]);
    const alone = evaluate(short, task([long]), { ...QUICK, scoring: 'cloze' });
    await expect(alone).rejects.toThrow('no question of the task mine has a score: an option by itself exceeds');
    await expect(alone).rejects.not.toThrow(UsageError);
  });

  it('names a question without a score, leaves it out, and asks the others', async () => {
    const continuations = (doc: ChoiceQuestion) => (doc.id === 'q1' ? doc.choices.map(() => '') : doc.choices);
    const result = await evaluate(model, task(DOCS, { harness: { prompt: () => 'x', continuations } }), {
      ...QUICK,
      scoring: 'continuation',
      chat: true, // there no blank stands before an option, and nothing is left to score
    });
    expect(result.excluded).toEqual([{ doc_id: 'q1', reason: 'an empty continuation cannot be scored' }]);
    expect([result.n, result.invalid]).toEqual([DOCS.length - 1, 1]);
    expect(result.rows.map((row) => row.doc_id)).toEqual(DOCS.map(({ id }) => id).filter((id) => id !== 'q1'));
  });

  it('E-19: counts the questions whose two highest scores are alike', async () => {
    // The same prompt and the same continuation for each option: no score is above another.
    const harness = { prompt: () => 'x', continuations: (doc: ChoiceQuestion) => doc.choices.map(() => 'same') };
    const tied = await evaluate(model, task(DOCS, { harness }), { ...QUICK, scoring: 'continuation' });
    expect(tied.ties).toBe(DOCS.length);
    expect(tied.rows.every(({ prediction }) => prediction === 0)).toBe(true);
    expect((await evaluate(model, task(), { ...QUICK, scoring: 'cloze' })).ties).toBe(0);
  });

  it('gives the same rows in however many parts the questions are taken', async () => {
    const many = Array.from({ length: 2500 }, (_, i) => ({ ...DOCS[i % 2]!, id: `m${i}`, question: `${i % 7}?` }));
    for (const scoring of ['letter', 'cloze'] as const) {
      const { rows } = await evaluate(model, task(many), { ...QUICK, scoring });
      expect(rows.map(({ doc_id }) => doc_id)).toEqual(many.map(({ id }) => id));
      rows.forEach(({ logprobs }, i) => close(logprobs, rows[i % 14]!.logprobs, 1e-5));
    }
  });

  it('counts rows of the file that cannot be used', async () => {
    const skipped = [{ line: 3, reason: 'field "answer": is not an integer' }];
    expect((await evaluate(model, task(DOCS, { skipped }), QUICK)).skipped).toBe(1);
  });

  it('says what was asked of whom', async () => {
    const result = await evaluate(model, task(), { ...QUICK, seed: 7, bins: 5 });
    expect(result).toMatchObject({
      task: 'mine',
      task_version: 1,
      source: 'mine.jsonl',
      split: 'test',
      scoring: 'letter',
      normalisation: 'none',
      calibration: 'uncalibrated',
      model: 'tiny',
      model_hash: model.hash,
      seed: 7,
      n: DOCS.length,
      truncated: 0,
      skipped: 0,
      invalid: 0,
      binning: { bins: 5, n: DOCS.length },
    });
    expect(result.bins.confidence).toHaveLength(5);
    expect(result.wall_seconds).toBeGreaterThan(0);
    expect(new Set(result.rows.map((row) => row.doc_hash)).size).toBe(DOCS.length);
  });

  it('keeps no tensors', async () => {
    expect(await tensorsKept(() => evaluate(model, task(), QUICK))).toBe(0);
    expect(await tensorsKept(() => evaluate(model, task(), { ...QUICK, scoring: 'cloze' }))).toBe(0);
  });
});

describe('withPosthoc', () => {
  it('is the calibrator of each row; what is most likely, and right, is asked anew', async () => {
    const three = Array.from({ length: 30 }, (_, i) => ({
      ...DOCS[1]!,
      id: `t${i}`,
      question: `${i}?`,
      answer: (i * 7) % 3,
    }));
    const before = await evaluate(model, task(three), { ...QUICK, scoring: 'cloze' });
    const fitted = fitPosthoc('vector', before.rows.map((row) => ({ logits: row.logprobs, label: row.label }))); // prettier-ignore
    const after = withPosthoc(before, fitted, QUICK);
    expect([after.calibration, after.temperature]).toEqual(['vector', undefined]);
    after.rows.forEach((row, i) => {
      close(row.probs, applyPosthoc(fitted, { logits: before.rows[i]!.logprobs }), 1e-12);
      expect([row.prediction, row.correct]).toEqual([argmax(row.probs), argmax(row.probs) === row.label]);
    });
    expect(after.metrics['nll']!.value).toBeCloseTo(fitted.nll_after, 9);
    expect(after.rows.some((row, i) => row.prediction !== before.rows[i]!.prediction)).toBe(true);
    expect(after.metrics['accuracy']!.value).not.toBe(before.metrics['accuracy']!.value);
    await expect(evaluate(model, task(), { ...QUICK, scoring: 'cloze' }).then((all) => withPosthoc(all, fitted))).rejects.toThrow('2 options, but the calibrator was fitted to 3'); // prettier-ignore
  });
});

describe('withTemperature', () => {
  let before: Result;
  beforeAll(async () => {
    before = await evaluate(model, task(), { scoring: 'cloze', resamples: 200 });
  });

  it('is the softmax of the scores over T; predictions stay', () => {
    const after = withTemperature(before, 2.5, QUICK);
    expect([after.calibration, after.temperature]).toEqual(['temperature', 2.5]);
    after.rows.forEach((row, i) => {
      close(row.probs, softmax(before.rows[i]!.logprobs.map((lp) => lp / 2.5)), 1e-12);
      expect([row.prediction, row.logprobs]).toEqual([before.rows[i]!.prediction, before.rows[i]!.logprobs]);
    });
    expect(after.metrics['accuracy']!.value).toBe(before.metrics['accuracy']!.value);
    expect(after.metrics['mean_confidence']!.value).toBeLessThan(before.metrics['mean_confidence']!.value!);
    expect(before.calibration).toBe('uncalibrated');
  });

  it('at T = 1 changes no metric, at T = Infinity asks for even odds', () => {
    const same = withTemperature(before, 1, { resamples: 200 });
    for (const [name, { value, interval }] of Object.entries(same.metrics)) {
      const old = before.metrics[name]!;
      expect(value ?? NaN, name).toBeCloseTo(old.value ?? NaN, 12);
      if (interval) close(interval, old.interval!, 1e-9);
    }
    const even = withTemperature(before, Infinity, QUICK);
    even.rows.forEach(({ probs }) => close(probs, probs.map(() => 1 / probs.length), 1e-12)); // prettier-ignore
  });

  it('C-5: has an NLL where probabilities underflow', () => {
    const cold = withTemperature(before, 1e-3, QUICK);
    expect(cold.rows.some((row) => row.probs[row.label] === 0)).toBe(true);
    const right = cold.rows.map((row) => -logSoftmax(row.logprobs.map((lp) => lp / 1e-3))[row.label]!);
    expect(cold.metrics['nll']!.value).toBeCloseTo(right.reduce((a, b) => a + b, 0) / right.length, 6);
    expect(withTemperature(before, 0, QUICK).metrics['nll']!.value).toBe(Infinity);
    expect(() => withTemperature(before, -1, QUICK)).toThrow(CalmError);
  });
});

describe.skipIf(!HAS_SMOL)('evaluate SmolLM2 (needs the model)', () => {
  it('E-13: gives the same scores whatever the batch and order, and those of each question by itself', async () => {
    const smol = await loadModel('smollm2-135m-instruct');
    const { docs, ...starter } = await loadTask('starter', { limit: 5 });
    const reversed = [...docs].reverse();
    for (const scoring of ['letter', 'cloze'] as const) {
      const ask = (d: typeof docs, batchTokens: number) =>
        evaluate(smol, { ...starter, docs: d }, { ...QUICK, scoring, batchTokens });
      const one = await ask(docs, 1);
      for (const other of [await ask(reversed, 4096), await ask(reversed, 150)]) {
        [...other.rows].reverse().forEach((row, i) => {
          close(row.probs, one.rows[i]!.probs, 1e-5);
          expect(row.prediction).toBe(one.rows[i]!.prediction);
        });
      }
      one.rows.slice(0, 2).forEach((row, i) => {
        const { question, choices } = docs[i]!;
        if (scoring === 'cloze') {
          close(row.logprobs, byItself(smol, `Question: ${question}\nAnswer:`, choices), 1e-3);
        } else {
          const listed = choices.map((choice, k) => `${'ABCD'[k]}. ${choice}\n`).join('');
          const [logits] = lastLogits(smol, [smol.tokenizer.encode(`${question}\n${listed}Answer:`)]) as [Float32Array];
          const tokens = ['ĠA', 'ĠB', 'ĠC', 'ĠD'].map((token) => smol.tokenizer.idOf(token)!);
          close(row.logprobs, logSoftmax(tokens.map((id) => logits[id]!)), 1e-3);
        }
      });
    }
    smol.dispose();
  });
});
