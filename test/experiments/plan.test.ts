import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkPlan, readPlan, type Plan } from '../../src/experiments/plan';
import { combinations, pointsOf } from '../../src/experiments/points';
import { writeJsonl, writeTinyFolder } from '../evaluate/tiny-folder';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-plan-'));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));
const question = (id: string) => ({ id, question: `What is ${id}?`, choices: ['this', 'that'], answer: 0 });
beforeAll(() => {
  writeTinyFolder(path.join(folder, 'tiny'));
  for (const name of ['train', 'valid', 'test', 'other'])
    writeJsonl(path.join(folder, `${name}.jsonl`), [question(name)]);
});

const plan: Plan = {
  name: 'rates',
  model: 'tiny',
  settings: { id: { train: 'train.jsonl', validation: 'valid.jsonl', test: 'test.jsonl' } },
  methods: ['baseline', 'ts', { method: 'calm', grid: { lowerRate: [0.1, 0.01], upperRate: [1, 0] } }, 'calm-scalar'],
  seeds: [0, 5],
};
const points = async (changes: Partial<Plan> | Record<string, unknown> = {}) =>
  pointsOf(checkPlan({ ...plan, ...changes }, 'plan.json', folder));
const ids = async (changes: Partial<Plan> = {}) => (await points(changes)).map(({ id }) => id);

describe('the points of a plan', () => {
  it('are methods x grid x seeds, with names that say which', async () => {
    const words = (await ids()).map((id) => id.replace(/-[0-9a-f]{8}$/, ''));
    expect(words).toEqual([
      'id-baseline-s0',
      'id-ts-s0',
      ...['0.1-upperRate1', '0.1-upperRate0', '0.01-upperRate1', '0.01-upperRate0'].flatMap((rates) => [
        `id-calm-lowerRate${rates}-s0`,
        `id-calm-lowerRate${rates}-s5`,
      ]),
      'id-calm-scalar-s0',
      'id-calm-scalar-s5',
    ]);
    expect(new Set(await ids()).size).toBe(12);
    expect(combinations({ a: [1, 2], b: ['x', 'y'] })).toHaveLength(4);
  });

  it('hold every option, and how the questions are put decides how they are trained', async () => {
    const [calm] = (await points()).filter(({ method }) => method === 'calm');
    expect(calm).toMatchObject({ options: { lowerRate: 0.1, gamma: 0.5, head: 'vector', format: 'letter' }, seed: 0 });
    expect(calm!.options).not.toHaveProperty('seed');
    expect(calm!.sources.trainValidation).toEqual(calm!.sources.validation);
    const cloze = await points({ settings: { id: { ...plan.settings['id'], scoring: 'cloze' } } });
    expect(cloze.at(-1)).toMatchObject({ method: 'calm', options: { head: 'scalar', format: 'cloze' } });
  });

  it('can be of some settings only, and of other seeds', async () => {
    const settings = { id: plan.settings['id']!, ood: { ...plan.settings['id']!, train: 'other.jsonl' } };
    const words = async (methods: Plan['methods']) =>
      (await ids({ settings, methods })).map((id) => id.replace(/-[0-9a-f]{8}$/, ''));
    const only = await words([
      { method: 'ls', settings: ['id'], seeds: [7] },
      { method: 'calm', settings: ['id'] },
      { method: 'calm', settings: ['ood'], grid: { lowerRate: [1] } },
    ]);
    expect(only).toEqual([
      ...['baseline-s0', 'ls-s7', 'calm-s0', 'calm-s5'].map((word) => `id-${word}`),
      ...['baseline-s0', 'calm-lowerRate1-s0', 'calm-lowerRate1-s5'].map((word) => `ood-${word}`),
    ]);
    // What a point is called by its plan does not change what it is.
    expect((await ids({ settings, methods: [{ method: 'ls', settings: ['id'] }] }))[1]).toBe((await ids({ methods: ['ls'] }))[1]); // prettier-ignore
    await expect(words([{ method: 'ls', settings: ['od'] }])).rejects.toThrow('plan.json: ls: unknown setting "od"');
    await expect(words(['calm', { method: 'calm', settings: ['ood'] }])).rejects.toThrow('two methods of the plan rates are called calm'); // prettier-ignore
  });

  it('have the baseline even where the plan forgets it, and seeds where the examples are drawn', async () => {
    expect((await ids({ methods: ['ts'] }))[0]).toMatch(/^id-baseline-s0/);
    const shots = await ids({
      methods: ['ts'],
      settings: { id: { validation: 'starter', test: 'starter', shots: 1 } },
    });
    expect(shots).toHaveLength(4);
  });

  it('keep their ids but for what has changed', async () => {
    const before = await ids();
    const kept = (after: string[]) => after.filter((id) => before.includes(id)).length;
    expect(await ids()).toEqual(before);
    expect(kept(await ids({ seeds: [0, 5, 6] }))).toBe(12);
    expect(kept(await ids({ methods: [...plan.methods, { method: 'calm', name: 'short', options: { epochs: 1 } }] }))).toBe(12); // prettier-ignore
    expect(kept(await ids({ resamples: 10 }))).toBe(0);
    // A default that is spelt out is the default.
    expect(kept(await ids({ methods: ['baseline', 'ts', { method: 'calm-scalar', options: { gamma: 0.5 } }] }))).toBe(
      4,
    );
    writeJsonl(path.join(folder, 'train.jsonl'), [question('changed')]);
    expect(kept(await ids())).toBe(2); // baseline and ts are not trained
    writeJsonl(path.join(folder, 'train.jsonl'), [question('train')]);
    expect(await ids()).toEqual(before);
  });

  it('do not depend on where the plan lies', async () => {
    const copy = path.join(folder, 'copy');
    for (const name of ['tiny', 'train.jsonl', 'valid.jsonl', 'test.jsonl']) {
      fs.cpSync(path.join(folder, name), path.join(copy, name), { recursive: true });
    }
    fs.writeFileSync(path.join(copy, 'plan.json'), JSON.stringify(plan));
    const there = await pointsOf(readPlan(path.join(copy, 'plan.json')));
    expect(there.map(({ id }) => id)).toEqual(await ids());
  });
});

describe('a plan that cannot be run', () => {
  const setting = plan.settings['id']!;
  it.each<[Record<string, unknown>, RegExp]>([
    [{ seeds: [] }, /plan\.json: seeds: a plan of 0 seeds has no points/],
    [{ seeds: [1, 1] }, /seeds: seed 1 stands there twice/],
    [{ seeds: [-1] }, /seeds\.0: a seed is 0 or more/],
    [{ seeds: [0.5] }, /seeds\.0: expected an integer/],
    [{ name: 'a b' }, /name: expected a name of letters/],
    [{ name: undefined }, /name: missing/],
    [{ model: [] }, /model: name at least one model/],
    [{ sedes: [1] }, /unknown field of a plan "sedes"; did you mean seeds/],
    [{ settings: {} }, /settings: name at least one setting/],
    [{ settings: { 'a b': setting } }, /expected a name of letters/],
    [{ settings: { id: { ...setting, test: undefined } } }, /settings\.id\.test: /],
    [{ settings: { id: { ...setting, tset: 'x' } } }, /unknown field of settings\.id "tset"; did you mean test/],
    [{ settings: { id: { ...setting, scoring: 'leter' } } }, /settings\.id\.scoring: .*letter/],
    [
      { settings: { id: { ...setting, train: undefined } } },
      /the setting id has nothing to train on, which calm needs/,
    ],
    [{ settings: { id: { ...setting, train: 'gone.jsonl' } } }, /cannot read .*gone\.jsonl: does not exist/],
    [{ settings: { id: { ...setting, test: 'ark_easy' } } }, /unknown task "ark_easy"; did you mean arc_easy/],
    [{ settings: { id: { ...setting, test: { task: 'starter', split: 'tset' } } } }, /unknown split of starter "tset"/],
    [{ settings: { id: { ...setting, normalisation: 'byte' } } }, /letters are not normalised/],
    [{ methods: [] }, /methods: name at least one method/],
    [{ methods: ['clam'] }, /unknown method "clam"; did you mean calm/],
    [{ methods: ['calm', { method: 'calm', options: { gamma: 1 } }] }, /two methods of the plan rates are called calm/],
    [{ methods: [{ method: 'calm', optons: {} }] }, /unknown field of methods\.0 "optons"; did you mean options/],
    [{ methods: [{ method: 'calm', grid: { lowerRate: [] } }] }, /methods\.0\.grid\.lowerRate: has no value to try/],
    [{ methods: [{ method: 'calm', grid: { lowerRate: [1, 1] } }] }, /the value 1 stands there twice/],
    [
      { methods: [{ method: 'calm', grid: { lowerRate: [0.1, -1] } }] },
      /calm at \{"lowerRate":-1\}: option lowerRate: /,
    ],
    [{ methods: [{ method: 'calm', grid: { seed: [1] } }] }, /"seed" is not for grid; list "seeds" in the plan/],
    [
      { methods: [{ method: 'calm', options: { lowrRate: 1 } }] },
      /unknown option of calm "lowrRate"; did you mean lowerRate/,
    ],
    [{ methods: [{ method: 'calm', options: { gamma: 1 }, grid: { gamma: [1] } }] }, /gamma is set already/],
    [{ methods: [{ method: 'calm-scalar', options: { head: 'vector' } }] }, /head is set already/],
    [
      { methods: [{ method: 'baseline', grid: { bins: [1] } }] },
      /baseline has no options, and "bins" stands in its grid/,
    ],
    [{ model: 'nowhere' }, /unknown model "nowhere"/],
    [{ model: 'no/where' }, /cannot read .*no.where: does not exist/],
  ])('%j is refused in words', async (changes, message) => {
    const error = (await points(changes).catch((e: unknown) => e)) as { line: string };
    expect(error.line).toMatch(message);
    expect(error.line).not.toContain('\n');
  });

  it('is not JSON, or is not there', () => {
    fs.writeFileSync(path.join(folder, 'bad.json'), '{');
    expect(() => readPlan(path.join(folder, 'bad.json'))).toThrow(/bad\.json is not JSON/);
    expect(() => readPlan(path.join(folder, 'gone.json'))).toThrow(/gone\.json: does not exist/);
    expect(() => checkPlan([])).toThrow(/the plan: /);
  });
});
