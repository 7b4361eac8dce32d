import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { evaluate, loglikelihood, openCache, ResponseCache, type Task } from '../../src/evaluate';
import { requestKey } from '../../src/evaluate/cache';
import * as modelParts from '../../src/model';
import { loadModel, type LanguageModel } from '../../src/pretrained';
import { runChild } from '../child';
import { temporaryFolder } from '../model/make-files';
import { writeTinyFolder } from './tiny-folder';

const folder = temporaryFolder();
let [a, b] = [] as unknown as [LanguageModel, LanguageModel];
beforeAll(async () => {
  a = await loadModel(writeTinyFolder(path.join(folder, 'a'), { seed: 1 }));
  b = await loadModel(writeTinyFolder(path.join(folder, 'b'), { seed: 2 }));
});
afterAll(() => [a, b].forEach((model) => model.dispose()));

const docs = Array.from({ length: 6 }, (_, i) => ({
  id: String(i),
  question: `What is ${i}?`,
  choices: ['this', 'that', 'more'],
  answer: i % 3,
}));
const task: Task = { name: 't', version: 1, source: '', split: 'test', docs, skipped: [], prompt: (d) => d.question };
const request = { context: [72, 105], continuation: [33, 34] };
let made = 0;
const fresh = () => path.join(folder, `cache-${made++}`);
const segments = (parent: string) =>
  fs.readdirSync(parent, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.jsonl'));

describe('ResponseCache', () => {
  it('computes no answer twice, and gives the same one to the last bit', () => {
    const where = fresh();
    const requests = [request, { context: [72], continuation: [105] }];
    const first = loglikelihood(a, requests, { cache: openCache(a, where) });
    const again = openCache(a, where);
    expect(again.size).toBe(2);
    const forward = vi.spyOn(modelParts, 'scoreContinuations');
    expect(loglikelihood({ ...a, parameters: {} as never }, requests, { cache: again })).toEqual(first);
    expect(forward).not.toHaveBeenCalled();
    forward.mockRestore();
  });

  it('continues an evaluation, whatever the scoring', async () => {
    const where = fresh();
    for (const scoring of ['letter', 'cloze', 'continuation'] as const) {
      const options = { scoring, resamples: 0 };
      const plain = await evaluate(a, task, options);
      await evaluate(a, { ...task, docs: docs.slice(2, 4) }, { ...options, cache: openCache(a, where) });
      const rest = await evaluate(a, task, { ...options, cache: openCache(a, where) });
      rest.rows.forEach(({ logprobs }, i) =>
        logprobs.forEach((lp, k) => expect(lp).toBeCloseTo(plain.rows[i]!.logprobs[k]!, 4)),
      );
      const known = openCache(a, where);
      const before = known.size;
      expect((await evaluate(a, task, { ...options, cache: known })).rows).toEqual(rest.rows);
      expect(known.size).toBe(before);
    }
  });

  it("E-16: never gives one model's answer as another's", () => {
    const where = fresh();
    const answer = (model: LanguageModel) => loglikelihood(model, [request], { cache: openCache(model, where) })[0]!;
    const adapted = { ...b, tuning: { adapterHash: 'x', head: true } };
    const others = [
      adapted,
      { ...adapted, tuning: { ...adapted.tuning, head: false } },
      { ...b, weights: 'nf4' as const },
    ];
    const short = { ...b, config: { ...b.config, maxPositions: 9 } };
    expect(answer(b)).not.toEqual(answer(a));
    for (const other of [...others, short]) {
      expect(openCache(other, where).size).toBe(0);
      answer(other);
    }
    expect(fs.readdirSync(where)).toHaveLength(6);
  });

  it('tells apart what is asked', () => {
    const keys = [
      requestKey('loglikelihood', [1, 2], [3]),
      requestKey('loglikelihood', [1], [2, 3]),
      requestKey('loglikelihood', [12], [3]),
      requestKey('letters', [1, 2], [3]),
    ];
    expect(new Set(keys).size).toBe(4);
  });

  it('does not read a line that was cut, nor one that is none, and keeps what is whole', () => {
    const where = fresh();
    fs.mkdirSync(where);
    fs.writeFileSync(path.join(where, '1-a.jsonl'), '["k1",{"x":1}]\n\n7\n["k2",{"x":2}]\n["k3",{"x');
    const cache = new ResponseCache(where);
    expect(cache.size).toBe(2);
    const found = cache.recall<{ x: number }>(['k1', 'k3'], (missing, give) =>
      missing.forEach((i) => give(i, { x: 3 })),
    );
    expect(found).toEqual([{ x: 1 }, { x: 3 }]);
    expect(new ResponseCache(where).size).toBe(3);
  });

  it('does not keep what is not a number', () => {
    const where = fresh();
    const cache = new ResponseCache(where);
    const compute = vi.fn((missing: number[], found: (i: number, x: number) => void) =>
      missing.forEach((i) => found(i, NaN)),
    );
    expect(cache.recall(['k'], compute)).toEqual([NaN]);
    expect(cache.recall(['k'], compute)).toEqual([NaN]);
    expect(compute).toHaveBeenCalledTimes(2);
    expect(fs.existsSync(where)).toBe(false);
  });

  const ask = (where: string, name: string, count: number, inner = '') => `
    const { ResponseCache } = require('./src/evaluate/cache.ts');
    const cache = new ResponseCache(${JSON.stringify(where)});
    cache.recall(Array.from({ length: ${count} }, (_, i) => '${name}' + i), (missing, found) => missing.forEach((i) => {
      ${inner}
      found(i, { i });
    }));`;

  it('keeps what a killed process had found', () => {
    const where = fresh();
    runChild(ask(where, 'a', 50, "if (i === 20) process.kill(process.pid, 'SIGKILL');"));
    expect(new ResponseCache(where).size).toBe(20);
    runChild(ask(where, 'a', 50));
    expect(new ResponseCache(where).size).toBe(50);
    expect(segments(where)).toHaveLength(2);
  });

  it('takes answers of two at once', () => {
    const where = fresh();
    const [one, other] = [new ResponseCache(where), new ResponseCache(where)];
    const keys = (name: string) => Array.from({ length: 9 }, (_, i) => `${name}${i}`);
    one.recall(keys('x'), (missing, found: (i: number, answer: number) => void) =>
      missing.forEach((i) => {
        found(i, i);
        other.recall([`y${i}`], (_, give: (j: number, answer: number) => void) => give(0, i));
      }),
    );
    expect(new ResponseCache(where).size).toBe(18);
  });

  it('stops in one line when there is no room, and what was kept stays', () => {
    const where = fresh();
    const limits = { shell: "trap '' XFSZ; ulimit -f 8" };
    const { status, stderr } = runChild(
      `try { ${ask(where, 'long key '.repeat(20), 100)} } catch (e) { console.error(e.line); process.exit(1); }`,
      limits,
    );
    expect(status).toBe(1);
    expect(stderr).toContain('the file may not grow that large; free some space and run again');
    const kept = new ResponseCache(where).size;
    expect(kept).toBeGreaterThan(5);
    expect(kept).toBeLessThan(100);
  });
});
