import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { fetchTask } from '../../src/data';
import { loadTask } from '../../src/evaluate';
import { runChild } from '../child';
import { temporaryFolder } from '../model/make-files';
import { closedPort, failure, hub, parquet, serve, sha256 } from './hub-server';

const base = temporaryFolder();
let made = 0;
const folder = () => path.join(base, `${made++}`);
const wait = async () => undefined;
const lines = (file: string) => fs.readFileSync(file, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line) as unknown); // prettier-ignore

/** As the `datasets` library of Python writes what the hub shows; test/data/hub-server.ts writes the others. */
const ARC = new Uint8Array(fs.readFileSync(path.join(__dirname, '../fixtures/parquet/ai2_arc.parquet')));
const sst2 = (n: number) => parquet(Array.from({ length: n }, (_, i) => ({ sentence: `film ${i}`, label: BigInt(i % 2), idx: i }))); // prettier-ignore

beforeEach(() => setQuiet(true));
afterEach(() => {
  setQuiet(false);
  vi.unstubAllEnvs();
});

describe('fetchTask', () => {
  it('fetches every split of ARC-Easy, says where from, and does nothing the second time', async () => {
    const files = Object.fromEntries(
      ['train', 'validation', 'test'].map((s) => [`allenai/ai2_arc/ARC-Easy/${s}`, [ARC]]),
    );
    const { origin, hits } = await serve(hub(files));
    vi.stubEnv('HF_ENDPOINT', `${origin}/`);
    const data = folder();
    const fetched = await fetchTask('arc_easy', { data });
    expect(fetched).toEqual({
      task: 'arc_easy',
      data,
      splits: ['train', 'validation', 'test'].map((split) => ({
        split,
        file: path.join(data, 'arc_easy', `${split}.jsonl`),
        rows: 2,
        status: 'fetched',
      })),
    });
    const where = path.join(data, 'arc_easy');
    expect(fs.readdirSync(where).sort()).toEqual(['SOURCE.json', 'test.jsonl', 'train.jsonl', 'validation.jsonl']);
    const { splits } = JSON.parse(fs.readFileSync(path.join(where, 'SOURCE.json'), 'utf8')) as { splits: object };
    expect(Object.keys(splits)).toEqual(['train', 'validation', 'test']);
    expect(splits).toMatchObject({
      test: {
        repo: 'allenai/ai2_arc',
        config: 'ARC-Easy',
        split: 'test',
        files: [
          {
            url: `${origin}/api/datasets/allenai/ai2_arc/parquet/ARC-Easy/test/0.parquet`,
            bytes: ARC.length,
            sha256: sha256(ARC),
            verified: true,
          },
        ],
        rows: 2,
        date: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) as string,
      },
    });
    expect((await loadTask('arc_easy', { data })).docs).toEqual([
      { id: 'a1', question: 'Which of these melts first in the sun?', choices: ['ice', 'iron', 'stone'], answer: 0 },
      {
        id: 'a2',
        question: 'Which of these is a tool – “naïve” 工具?',
        choices: ['a cloud', 'a song', 'a wish', 'a hammer'],
        answer: 3,
      },
    ]);
    const asked = hits.length;
    const again = await fetchTask('arc_easy', { data });
    expect(again.splits.map(({ status, rows }) => [status, rows])).toEqual([['there', 2], ['there', 2], ['there', 2]]); // prettier-ignore
    expect(hits).toHaveLength(asked);
  });

  it('fetches what is in several files, and leaves rows of your own alone', async () => {
    const parts = [await sst2(3), await sst2(2)];
    const { origin: endpoint } = await serve(
      hub({ 'nyu-mll/glue/sst2/validation': parts, 'nyu-mll/glue/sst2/train': parts }),
    );
    const data = folder();
    fs.mkdirSync(path.join(data, 'sst2'), { recursive: true });
    const own = path.join(data, 'sst2', 'train.jsonl');
    fs.writeFileSync(own, '{"text":"mine","label":0}\n');
    const { splits } = await fetchTask('sst2', { data, endpoint });
    expect(splits).toEqual([
      { split: 'validation', file: path.join(data, 'sst2', 'validation.jsonl'), rows: 5, status: 'fetched' },
      { split: 'train', file: own, status: 'there' },
    ]);
    expect(fs.readFileSync(own, 'utf8')).toBe('{"text":"mine","label":0}\n');
    const { docs, skipped } = await loadTask('sst2', { data });
    expect(skipped).toEqual([]);
    expect(docs.map(({ question, answer }) => [question, answer])).toEqual([
      ['film 0', 0],
      ['film 1', 1],
      ['film 2', 0],
      ['film 0', 0],
      ['film 1', 1],
    ]);
  });

  it('fetches Alpaca once and parts it by position, so that no row stands in two parts', async () => {
    const rows = Array.from({ length: 52_002 }, (_, i) => ({ instruction: `do ${i}`, input: '', output: `${i}` }));
    const { origin: endpoint, hits } = await serve(hub({ 'tatsu-lab/alpaca/default/train': [await parquet(rows)] }));
    const data = folder();
    const { splits } = await fetchTask('alpaca', { data, endpoint });
    expect(splits.map(({ split, rows: n }) => [split, n])).toEqual([['train', 48_002], ['validation', 2000], ['test', 2000]]); // prettier-ignore
    expect(hits.filter(({ path: asked }) => asked.endsWith('/train'))).toHaveLength(1);
    const of = (split: string) => lines(path.join(data, 'alpaca', `${split}.jsonl`));
    expect(of('train').at(-1)).toEqual(rows[48_001]);
    expect([of('validation')[0], of('validation').at(-1), of('test')[0], of('test').at(-1)]).toEqual([rows[48_002], rows[50_001], rows[50_002], rows[52_001]]); // prettier-ignore
  });

  it('fetches what loadTask reads, whatever the layout on the hub', async () => {
    const question = 'Where?';
    const files = {
      'Rowan/hellaswag/default/validation': {
        ind: 1,
        activity_label: 'Baking',
        ctx_a: 'A cook kneads.',
        ctx_b: 'the cook',
        endings: ['rests.', 'sings.'],
        label: '1',
      },
      'cais/mmlu/all/test': { question, subject: 'anatomy', choices: ['a', 'b', 'c', 'd'], answer: 2n },
      'cais/mmlu/all/dev': { question: 'Who?', subject: 'anatomy', choices: ['a', 'b', 'c', 'd'], answer: 0n },
      'truthfulqa/truthful_qa/multiple_choice/validation': {
        question,
        mc1_targets: { choices: ['Here.', 'There.'], labels: [0, 1] },
      },
      'regisss/math_qa/default/test': { Problem: question, options: 'a ) 1 , b ) 2 , e ) 3', correct: 'b' },
    };
    const written: Record<string, Uint8Array[]> = {};
    for (const [name, row] of Object.entries(files)) written[name] = [await parquet([row])];
    const { origin: endpoint } = await serve(hub(written));
    const data = folder();
    for (const name of ['hellaswag', 'mmlu', 'truthfulqa_mc1', 'mathqa']) await fetchTask(name, { data, endpoint });
    const doc = async (name: string) => (await loadTask(name, { data, limit: 1 })).docs[0];
    expect(await doc('hellaswag')).toMatchObject({ question: 'Baking: A cook kneads. The cook', answer: 1 });
    expect(await doc('mmlu')).toMatchObject({ question, choices: ['a', 'b', 'c', 'd'], answer: 2, topic: 'anatomy' });
    expect(await doc('truthfulqa_mc1')).toMatchObject({ question, choices: ['Here.', 'There.'], answer: 1 });
    expect(await doc('mathqa')).toMatchObject({ question, choices: ['1', '2', '3'], answer: 1 });
    expect(fs.readdirSync(path.join(data, 'truthfulqa')).sort()).toEqual(['SOURCE.json', 'mc1_test.jsonl']);
    expect((await loadTask('mmlu', { data, shots: 1 })).fewShot?.split).toBe('dev');
  });

  it("asks a mirror for what it lists by the hub's own address", async () => {
    const file = await sst2(1);
    const { origin: endpoint, hits } = await serve((request, response) => {
      const list = ['https://huggingface.co/datasets/x/resolve/0.parquet'];
      return response.end(request.url?.startsWith('/api/') ? JSON.stringify(list) : file);
    });
    await fetchTask('sst2', { data: folder(), endpoint });
    expect(hits.map(({ path: url }) => url)).toContain('/datasets/x/resolve/0.parquet');
  });
});

describe('a task that cannot be fetched', () => {
  it('is unknown, and the nearest are named', async () => {
    const { line, exitCode } = await failure(fetchTask('arc_eazy', { data: folder() }));
    expect([line, exitCode]).toEqual(['unknown benchmark "arc_eazy"; did you mean arc_easy?', 2]);
  });

  it('says which files to write where there is no network', async () => {
    const endpoint = await closedPort();
    const data = folder();
    expect((await failure(fetchTask('mmlu', { data, endpoint }))).line).toBe(
      `cannot reach ${new URL(endpoint).host} (ECONNREFUSED); check the network, HF_ENDPOINT and the proxy, or write rows ` +
        `{"question", "choices", "answer"} to ${data}/mmlu/test.jsonl, ${data}/mmlu/dev.jsonl yourself`,
    );
    expect((await failure(fetchTask('rte', { data, endpoint }))).line).toContain('{"premise", "hypothesis", "label"}');
    expect(fs.existsSync(data)).toBe(false);
  });

  it('is not on the hub, or listed otherwise', async () => {
    const empty = await serve(hub({}));
    expect((await failure(fetchTask('piqa', { data: folder(), endpoint: empty.origin }))).line).toBe(
      `${empty.origin}/api/datasets/baber/piqa/parquet/default/validation does not exist (404); look for it on the hub`,
    );
    const odd = await serve((_request, response) => response.end('{"error":"busy"}'));
    expect((await failure(fetchTask('piqa', { data: folder(), endpoint: odd.origin }))).line).toContain(
      'lists no Parquet files',
    );
    const local = await serve((_request, response) => response.end('["file:///etc/hosts"]'));
    expect((await failure(fetchTask('piqa', { data: folder(), endpoint: local.origin }))).line).toContain(
      'lists "file:///etc/hosts", which cannot be downloaded',
    );
  });

  it('is no Parquet, of another layout or empty, and leaves nothing behind', async () => {
    const bad: [Uint8Array, string][] = [
      [new TextEncoder().encode('<html>please log in</html>'), 'cannot be read as a Parquet file: '],
      [new Uint8Array(), 'cannot be read as a Parquet file: '],
      [(await sst2(50)).subarray(0, 200), 'cannot be read as a Parquet file: '],
      [ARC, 'row 1: field "sentence": '],
    ];
    for (const [bytes, message] of bad) {
      const data = folder();
      const { origin: endpoint } = await serve((request, response) =>
        response.end(request.url?.startsWith('/api/') ? '["/file.parquet"]' : bytes),
      );
      expect((await failure(fetchTask('sst2', { data, endpoint, wait }))).line).toContain(message);
      expect(fs.readdirSync(path.join(data, 'sst2'))).toEqual([]);
    }
  });

  it('has a SOURCE.json that something else wrote', async () => {
    const data = folder();
    fs.mkdirSync(path.join(data, 'sst2'), { recursive: true });
    fs.writeFileSync(path.join(data, 'sst2', 'SOURCE.json'), '{"splits": 3}');
    const { origin: endpoint, hits } = await serve(hub({}));
    expect((await failure(fetchTask('sst2', { data, endpoint }))).line).toMatch(
      /SOURCE.json is not as calm fetch .*; move it away/,
    );
    expect(hits).toEqual([]);
  });
});

describe('a fetch that is killed', () => {
  it('leaves only what had arrived, and the next one goes on from there', async () => {
    const file = await sst2(20_000);
    const half = Math.floor(file.length / 2);
    const data = folder();
    fs.mkdirSync(data);
    const whole = path.join(data, 'whole.parquet');
    fs.writeFileSync(whole, file);
    const { stdout, stderr } = runChild(`
      const fs = require('fs');
      const { fetchTask } = require('./src/data/fetch-task.ts');
      const server = require('http').createServer((request, response) => {
        if (request.url.startsWith('/api/')) return response.end('["/0.parquet"]');
        const file = fs.readFileSync(${JSON.stringify(whole)});
        response.writeHead(200, { 'content-length': file.length, 'x-linked-etag': '"${sha256(file)}"' });
        response.write(file.subarray(0, ${half}));
      });
      server.listen(0, '127.0.0.1', () => {
        const endpoint = 'http://127.0.0.1:' + server.address().port;
        fetchTask('sst2', { data: ${JSON.stringify(data)}, endpoint }).then(console.log, console.log);
        setInterval(() => {
          const partial = ${JSON.stringify(path.join(data, 'sst2/validation-0.parquet.partial'))};
          if (fs.existsSync(partial) && fs.statSync(partial).size === ${half}) process.kill(process.pid, 'SIGKILL');
        }, 20);
      });
    `);
    expect([stdout, stderr]).toEqual(['', '']);
    expect(fs.readdirSync(path.join(data, 'sst2'))).toEqual(['validation-0.parquet.partial']);
    const parts = { 'nyu-mll/glue/sst2/validation': [file], 'nyu-mll/glue/sst2/train': [await sst2(1)] };
    const { origin: endpoint, hits } = await serve(hub(parts));
    await fetchTask('sst2', { data, endpoint });
    const store = hits.filter(({ path: url }) => url.startsWith('/store/'));
    expect(store.map(({ headers }) => headers.range)).toEqual([`bytes=${half}-`, undefined]);
    expect(lines(path.join(data, 'sst2', 'validation.jsonl'))).toHaveLength(20_000);
    expect(fs.readdirSync(path.join(data, 'sst2')).sort()).toEqual(['SOURCE.json', 'train.jsonl', 'validation.jsonl']);
  });
});
