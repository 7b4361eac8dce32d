import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tf, type Tensor } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { combine, dispose, leaves, map, partition, type Tree } from '../../src/engine/tree';

/** A tree of numbers in place of scalars, to compare with. */
type Plain = number | undefined | Plain[] | { [name: string]: Plain };

const plain = fc.letrec<{ tree: Plain }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.integer({ min: -9, max: 9 }),
    fc.constant(undefined),
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'down'), tie('tree'), { noNullPrototype: true }),
  ),
})).tree;

function toTree(value: Plain): Tree {
  if (value === undefined || typeof value === 'number') return value === undefined ? value : tf.scalar(value);
  if (Array.isArray(value)) return value.map(toTree);
  return Object.fromEntries(Object.entries(value).map(([name, branch]) => [name, toTree(branch)]));
}

function toPlain(tree: Tree): Plain {
  if (tree === undefined) return undefined;
  if (tree instanceof tf.Tensor) return tree.dataSync()[0];
  if (Array.isArray(tree)) return (tree as readonly Tree[]).map(toPlain);
  return Object.fromEntries(Object.entries(tree as Record<string, Tree>).map(([n, branch]) => [n, toPlain(branch)]));
}

/** Runs `check` on trees of all shapes, and frees what it makes. */
function forAnyTree(check: (tree: Tree, value: Plain) => void): void {
  fc.assert(fc.property(plain, (value) => void tf.tidy(() => check(toTree(value), value))));
}

const example = () => ({ embedding: tf.scalar(1), layers: [{ down: tf.scalar(2) }, { down: tf.scalar(3), up: [] }] });

describe('leaves and map', () => {
  it('go through a tree in order, with paths', () => {
    tf.tidy(() => {
      const tree = example();
      expect(leaves(tree).map(([path]) => path)).toEqual(['embedding', 'layers.0.down', 'layers.1.down']);
      const doubled = map(tree, (leaf, path) => tf.mul(leaf, path.startsWith('layers') ? 10 : 1));
      expect(toPlain(doubled)).toEqual({ embedding: 1, layers: [{ down: 20 }, { down: 30, up: [] }] });
      expect(leaves(tf.scalar(5)).map(([path]) => path)).toEqual(['']);
      expect(leaves(undefined)).toEqual([]);
    });
  });

  it('map keeps the shape and passes every leaf once', () => {
    forAnyTree((tree, value) => {
      const seen: string[] = [];
      const same = map(tree, (leaf, path) => (seen.push(path), leaf));
      expect(toPlain(same)).toEqual(value);
      expect(seen).toEqual(leaves(tree).map(([path]) => path));
      expect(new Set(seen).size).toBe(seen.length);
    });
  });
});

describe('partition and combine', () => {
  it('divide the leaves and put them together again, in either order', () => {
    forAnyTree((tree, value) => {
      const positive = (leaf: Tensor) => leaf.dataSync()[0]! > 0;
      const [chosen, rest] = partition(tree, positive);
      expect(leaves(chosen).every(([, leaf]) => positive(leaf))).toBe(true);
      expect(leaves(rest).some(([, leaf]) => positive(leaf))).toBe(false);
      expect(leaves(chosen).length + leaves(rest).length).toBe(leaves(tree).length);
      expect(toPlain(combine(chosen, rest))).toEqual(value);
      expect(toPlain(combine(rest, chosen))).toEqual(value);
    });
  });

  it('partition chooses by path as well', () => {
    tf.tidy(() => {
      const [adapter, frozen] = partition(example(), (_leaf, path) => path.endsWith('down'));
      expect(toPlain(adapter)).toEqual({
        embedding: undefined,
        layers: [{ down: 2 }, { down: 3, up: [] }],
      });
      expect(leaves(frozen).map(([path]) => path)).toEqual(['embedding']);
    });
  });

  it('combine takes the first tree where both have a leaf, and a hole or a missing name for nothing', () => {
    tf.tidy(() => {
      const [one, two] = [tf.scalar(1), tf.scalar(2)];
      expect(combine(one, two)).toBe(one);
      expect(toPlain(combine({ a: one }, { a: two, b: two }))).toEqual({ a: 1, b: 2 });
      expect(toPlain(combine([undefined, one], [two, undefined]))).toEqual([2, 1]);
      expect(combine(undefined, undefined)).toBeUndefined();
    });
  });

  it('combine refuses trees of different shapes, whichever is first', () => {
    tf.tidy(() => {
      const leaf = tf.scalar(1);
      const clashes: [Tree, Tree][] = [
        [leaf, { a: leaf }],
        [leaf, [leaf]],
        [[leaf], { 0: leaf }],
        [{ deep: [leaf] }, { deep: leaf }],
      ];
      for (const [a, b] of clashes) {
        expect(() => combine(a, b)).toThrow('different shapes');
        expect(() => combine(b, a)).toThrow('different shapes');
      }
      expect(() => combine([leaf], [leaf, leaf])).toThrow('lists of 1 and 2');
    });
  });
});

describe('dispose', () => {
  it('frees every leaf, and a leaf that stands in two places once', async () => {
    const kept = await tensorsKept(() => {
      const leaf = tf.scalar(1);
      dispose({ a: leaf, b: [leaf, tf.scalar(2), undefined] });
    });
    expect(kept).toBe(0);
  });
});
