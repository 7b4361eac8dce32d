import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { startEngine } from '../../src/engine/backend';
import { growTrees, scoreContinuations, type Tree } from '../../src/model';
import { maxAbsDifference } from '../shared';
import { tinyModel } from './tiny-model';

/** The tokens at each place of a tree. */
const tokensOf = ({ sequence: { ids, branches = [] } }: Tree) => [...ids, ...branches.flatMap((branch) => branch.ids)];

// Few different tokens, so that much is shared.
const sequences = fc.array(fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 12 }), {
  maxLength: 20,
});

describe('growTrees', () => {
  it('holds every sequence once, token by token, in trees no larger than allowed', () => {
    fc.assert(
      fc.property(sequences, fc.integer({ min: 1, max: 60 }), (all, most) => {
        const trees = growTrees(all, most);
        const found = trees.flatMap((tree) =>
          tree.paths.map(({ index, places }) => {
            expect(places.map((place) => tokensOf(tree)[place])).toEqual(all[index]);
            expect(places).toEqual([...new Set(places)].sort((a, b) => a - b));
            return index;
          }),
        );
        expect(found.sort((a, b) => a - b)).toEqual([...all.keys()]);
        for (const tree of trees) {
          expect(tokensOf(tree)).toHaveLength(tree.size);
          if (tree.paths.length > 1) expect(tree.size).toBeLessThanOrEqual(most);
        }
      }),
    );
  });

  // So small that one shared token is always worth a tree.
  const few = fc.array(fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 6 }), { maxLength: 9 });

  it('computes nothing twice where all is shared, and gives the same trees in any order', () => {
    fc.assert(
      fc.property(few, (all) => {
        const beginnings = new Set(all.flatMap((ids) => ids.map((_, i) => `7,${ids.slice(0, i + 1).join()}`)));
        const trees = growTrees(all.map((ids) => [7, ...ids]));
        if (all.length > 0) expect(trees.map(({ size }) => size)).toEqual([1 + beginnings.size]);
        const again = growTrees([...all].reverse().map((ids) => [7, ...ids]));
        expect(again.map(({ sequence }) => sequence)).toEqual(trees.map(({ sequence }) => sequence));
      }),
    );
  });

  it('joins questions after long examples, not those that only begin alike', () => {
    const text = (length: number, seed: number) => Array.from({ length }, (_, i) => (i * seed) % 97);
    const questions = [3, 5, 7, 11].map((seed) => text(60, seed));
    expect(growTrees(questions.map((ids) => [1, ...ids.slice(1)]))).toHaveLength(4);
    const examples = text(600, 13);
    expect(growTrees(questions.map((ids) => [...examples, ...ids.slice(1)])).map(({ size }) => size)).toEqual([836]);
    expect(growTrees(questions.map((ids) => [...examples, ...ids.slice(1)]), 800)).toHaveLength(2); // prettier-ignore
  });

  it('refuses a sequence without tokens', () => {
    expect(() => growTrees([[1], []])).toThrow('sequence 1 has no tokens');
    expect(growTrees([])).toEqual([]);
  });
});

describe('scoreContinuations', () => {
  beforeAll(startEngine);

  it('scores requests that share beginnings as it does each alone', () => {
    const model = tinyModel();
    const ids = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 6 });
    const requests = fc.array(fc.record({ context: ids, continuation: ids }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(requests, (asked) => {
        const alone = asked.map((request) => scoreContinuations(model, [request])[0]!);
        scoreContinuations(model, asked).forEach(({ tokenLogProbs, greedy }, i) => {
          expect(maxAbsDifference(tokenLogProbs, alone[i]!.tokenLogProbs)).toBeLessThan(1e-4);
          expect(greedy).toEqual(alone[i]!.greedy);
        });
      }),
      { numRuns: 30 },
    );
  });
});
