import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/engine/random';

const draw = (random: Random, n: number) => Array.from({ length: n }, () => random.uniform());
const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

describe('Random', () => {
  // Results of runs are recorded with their seed: a change of any number here breaks every one of them.
  it('gives these numbers for ever', () => {
    const random = Random.seed(1).stream('bootstrap');
    expect(random.path).toBe('seed 1/bootstrap');
    expect(random.state).toEqual([996001758, -430019313, 1302439766, 2103203659]);
    expect(draw(random, 3)).toEqual([0.9323896580133517, 0.851140547921014, 0.30408420623322496]);
    expect(Array.from({ length: 8 }, () => random.integer(100))).toEqual([70, 35, 7, 13, 51, 8, 99, 79]);
    [0.8410564627891403, 0.30928455026425744, -0.18687165582335957].forEach((z) =>
      expect(random.normal()).toBeCloseTo(z, 14),
    );
    expect(random.shuffle([...'abcdefgh']).join('')).toBe('dfaegbhc');
    expect(random.sample([...'abcdefgh'], 3).join('')).toBe('bce');
    expect(random.state).toEqual([-808123540, -611500634, -1122446703, -87897478]);
  });

  it('a stream does not depend on what was drawn elsewhere', () => {
    const used = Random.seed(7);
    draw(used, 5);
    draw(used.stream('other'), 3);
    expect(draw(used.stream('data'), 4)).toEqual(draw(Random.seed(7).stream('data'), 4));
  });

  it('streams of other seeds, names and places differ', () => {
    const root = Random.seed(7);
    const all = [
      root,
      Random.seed(8),
      root.stream('a'),
      root.stream('b'),
      root.stream('a').stream('b'),
      root.stream('a/b'), // a name may hold a slash, as those of models on the Hub do
      root.stream('a\\').stream('b'),
      root.stream(''),
      Random.seed(8).stream('a'),
    ];
    expect(new Set(all.map((r) => r.uniform())).size).toBe(all.length);
  });

  it('state and at resume exactly, and leave the original alone', () => {
    fc.assert(
      fc.property(fc.integer(), fc.string(), fc.nat({ max: 20 }), (seed, name, drawn) => {
        const random = Random.seed(seed).stream(name);
        draw(random, drawn);
        // Through JSON, as a checkpoint keeps it.
        const state = JSON.parse(JSON.stringify(random.state)) as number[];
        const resumed = Random.seed(seed).stream(name).at(state);
        const later = draw(resumed, 5);
        expect(draw(random, 5)).toEqual(later);
        expect(draw(random.at(state), 5)).toEqual(later);
      }),
    );
  });

  it('uniform fills [0, 1) evenly', () => {
    const n = 40_000;
    const values = draw(Random.seed(3), n);
    expect(values.every((u) => u >= 0 && u < 1)).toBe(true);
    const counts = new Array<number>(10).fill(0);
    for (const u of values) counts[Math.floor(u * 10)]!++;
    const chiSquare = counts.reduce((sum, c) => sum + (c - n / 10) ** 2 / (n / 10), 0);
    expect(chiSquare).toBeLessThan(27.9); // 99.9 % at 9 degrees of freedom
    // Neighbours are not correlated: the standard error of the coefficient is 1 / sqrt(n).
    const products = values.slice(1).map((u, i) => (u - 0.5) * (values[i]! - 0.5) * 12);
    expect(Math.abs(mean(products))).toBeLessThan(4 / Math.sqrt(n));
  });

  it('integer takes every value below n alike, also where 2^32 is no multiple of n', () => {
    const random = Random.seed(4);
    const counts = new Array<number>(7).fill(0);
    for (let i = 0; i < 21_000; i++) counts[random.integer(7)]!++;
    expect(counts.reduce((sum, c) => sum + (c - 3000) ** 2 / 3000, 0)).toBeLessThan(22.5); // 99.9 % at 6
    expect(random.integer(1)).toBe(0);
    const large = Array.from({ length: 100 }, () => random.integer(Number.MAX_SAFE_INTEGER));
    expect(large.every(Number.isSafeInteger)).toBe(true);
    expect(Math.max(...large)).toBeGreaterThan(2 ** 52);
  });

  it.each([0, -1, 2.5, NaN, Infinity, 2 ** 53])('integer refuses %d', (n) => {
    expect(() => Random.seed(1).integer(n)).toThrow(`wants a positive integer, got ${n}`);
  });

  it('normal has mean 0, variance 1 and the tails of a bell', () => {
    const n = 40_000;
    const random = Random.seed(5);
    const values = Array.from({ length: n }, () => random.normal());
    expect(Math.abs(mean(values))).toBeLessThan(4 / Math.sqrt(n));
    expect(Math.abs(mean(values.map((z) => z * z)) - 1)).toBeLessThan(4 * Math.sqrt(2 / n));
    expect(mean(values.map((z) => (Math.abs(z) > 1.96 ? 1 : 0)))).toBeCloseTo(0.05, 2);
  });

  it('shuffle gives a permutation, and leaves its argument', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.integer(), (items, seed) => {
        const before = [...items];
        const shuffled = Random.seed(seed).shuffle(items);
        expect(items).toEqual(before);
        const sorted = (list: number[]) => [...list].sort((a, b) => a - b);
        expect(sorted(shuffled)).toEqual(sorted(items));
      }),
    );
  });

  it('shuffle gives each of the orders alike', () => {
    const random = Random.seed(6);
    const counts = new Map<string, number>();
    for (let i = 0; i < 6000; i++) {
      const order = random.shuffle(['a', 'b', 'c']).join('');
      counts.set(order, (counts.get(order) ?? 0) + 1);
    }
    expect(counts.size).toBe(6);
    const chiSquare = [...counts.values()].reduce((sum, c) => sum + (c - 1000) ** 2 / 1000, 0);
    expect(chiSquare).toBeLessThan(20.5); // 99.9 % at 5
  });

  it('sample gives k different items, and refuses more than there are', () => {
    const items = [...'abcdef'];
    for (let k = 0; k <= 6; k++) {
      const drawn = Random.seed(k).sample(items, k);
      expect(new Set(drawn).size).toBe(k);
      expect(drawn.every((item) => items.includes(item))).toBe(true);
    }
    expect(() => Random.seed(1).sample(items, 7)).toThrow('cannot draw 7 of 6 items');
  });
});
