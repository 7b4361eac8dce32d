import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { PACKAGE_ROOT } from '../../src/base/presets';
import { docHash, mcqaMixture, normaliseQuestion } from '../../src/data';
import { Random } from '../../src/engine/random';
import { loadTask } from '../../src/evaluate';
import { temporaryFolder } from '../model/make-files';
import { HAS_SHARED, SHARED } from '../shared';

const PARTS = ['test', 'train', 'validation'] as const;
const list = (part: string) =>
  fs
    .readFileSync(path.join(PACKAGE_ROOT, 'datasets', 'mcqa', `${part}.txt`), 'utf8')
    .trim()
    .split('\n');

describe('the lists of the MCQA mixture', () => {
  it('have the sizes of the paper, equal quarters, and nothing twice', () => {
    expect(PARTS.map((part) => list(part).length)).toEqual([2000, 2000, 1000]);
    for (const part of PARTS) {
      const sources = list(part).map((line) => line.split(' ')[0]!);
      for (const name of new Set(sources)) {
        expect(sources.filter((source) => source === name).length, `${part} ${name}`).toBe(sources.length / 4);
      }
      // In random order, so that the first questions are a mixture too.
      expect(new Set(sources.slice(0, 50)).size).toBe(4);
    }
    expect(new Set(PARTS.flatMap(list)).size).toBe(5000);
  });
});

describe('mcqa', () => {
  it('says which rows it needs, and where they are', async () => {
    const folder = temporaryFolder();
    await expect(loadTask('mcqa', { data: folder })).rejects.toMatchObject({
      line: expect.stringContaining('needs the rows of arc_challenge, medmcqa, mmlu, openbookqa') as string,
      remedy: expect.stringContaining('calm fetch arc_challenge') as string,
    });
    for (const name of ['arc_challenge', 'medmcqa', 'mmlu', 'openbookqa']) {
      fs.mkdirSync(path.join(folder, name));
      fs.writeFileSync(path.join(folder, name, 'test.jsonl'), '{"question":"a","choices":["b","c"],"answer":0}\n');
    }
    await expect(loadTask('mcqa', { data: folder })).rejects.toThrow(
      "2000 of the 2000 questions of mcqa's split test are not among the rows of",
    );
    await expect(loadTask('mcqa', { data: folder, split: 'tset' })).rejects.toThrow('unknown split of mcqa "tset"');
  });

  const data = path.join(SHARED, 'data');
  it.skipIf(!HAS_SHARED)(
    'is what the draw gives, and no question of one part is in another (needs ../shared)',
    async () => {
      const drawn = await mcqaMixture(data, { train: 2000, validation: 1000, test: 2000 }, Random.seed(0));
      const seen = new Map<string, string>();
      for (const part of PARTS) {
        const order = Random.seed(0).stream(`mcqa ${part}`).shuffle(drawn[part]);
        expect(order.map((question) => `${question.id.split('/')[0]} ${docHash(question)}`)).toEqual(list(part));
        const { docs } = await loadTask('mcqa', { data, split: part });
        expect(docs.map(({ topic, ...rest }) => [topic, docHash(rest)].join(' '))).toEqual(list(part));
        for (const { question, choices } of docs) {
          const content = normaliseQuestion(question);
          expect(seen.get(content) ?? part, question).toBe(part);
          seen.set(content, part);
          expect(choices).toHaveLength(4);
        }
      }
    },
  );

  it.skipIf(!HAS_SHARED)('has examples from its training part (needs ../shared)', async () => {
    const { docs, fewShot } = await loadTask('mcqa', { data, limit: 3, shots: 2 });
    expect(docs).toHaveLength(3);
    expect(fewShot).toMatchObject({ shots: 2, split: 'train' });
    expect(fewShot!.pool).toHaveLength(2000);
  });
});
