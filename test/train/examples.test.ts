import * as path from 'node:path';
import { describe, expect, it } from 'vitest';
import { byteTokenizer } from '../../src/data/byte-tokenizer';
import { tokenizerFromJson } from '../../src/data';
import { readTraining, toExamples } from '../../src/train/examples';
import { writeJsonl } from '../evaluate/tiny-folder';
import { temporaryFolder } from '../model/make-files';

const folder = temporaryFolder();
const { tokenizer: json, config } = byteTokenizer();
const tokenizer = tokenizerFromJson(json, config);
const rows = (name: string, all: unknown[]) => writeJsonl(path.join(folder, `${name}.jsonl`), all);
const supervised = (labels: readonly number[]) => tokenizer.decode(labels.filter((id) => id !== tokenizer.eosId));

describe('open questions', () => {
  it('are put as they are asked, and the first of their answers is supervised to its end', async () => {
    const file = rows('open', [
      { id: 'a', question: 'Who?', answers: ['Ada', 'Lovelace'] },
      { question: '', answers: ['x'] },
      { id: 'b', question: 'Where?', answers: ['In Rome'] },
    ]);
    const data = await readTraining(file);
    expect([data.kind, data.open.length, data.skipped.map(({ line }) => line)]).toEqual(['open', 2, [2]]);
    for (const format of ['letter', 'cloze'] as const) {
      const { examples, letters } = toExamples(data, tokenizer, { format, maxPositions: 512 });
      expect(letters).toBeUndefined();
      expect(examples.map(({ labels }) => supervised(labels))).toEqual([' Ada', ' In Rome']);
      expect(examples.map(({ labels }) => labels.at(-1))).toEqual([tokenizer.eosId, tokenizer.eosId]);
      const [{ ids, positions, labels }] = examples as [(typeof examples)[0]];
      expect(tokenizer.decode(ids)).toBe('Question: Who?\nAnswer: Ada');
      positions.forEach((at, i) => i > 0 && expect(ids[at]).toBe(labels[i - 1])); // each is read, then the next predicted
    }
  });

  it('with options are questions to choose in', async () => {
    const file = rows('both', [{ question: 'Who?', answers: ['Ada'], choices: ['Ada', 'Eve'], answer: 0 }]);
    expect((await readTraining(file)).kind).toBe('questions');
  });
});
