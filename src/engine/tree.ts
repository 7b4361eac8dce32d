import { tf, type Tensor } from './backend';

/** Parameters as a plain tree of tensors: nested objects and arrays. A hole (undefined) is a leaf held elsewhere,
 * a function makes its leaves when they are needed; both are passed over. */
export type Tree = Tensor | undefined | (() => Tree) | readonly Tree[] | { readonly [name: string]: Tree };

type Visit<R> = (leaf: Tensor, path: string) => R;

function walk(tree: Tree, path: string, visit: Visit<Tensor | undefined>): Tree {
  if (tree === undefined || typeof tree === 'function') return tree;
  if (tree instanceof tf.Tensor) return visit(tree, path);
  const join = (name: string | number) => (path === '' ? String(name) : `${path}.${name}`);
  if (Array.isArray(tree)) return tree.map((branch: Tree, i) => walk(branch, join(i), visit));
  return Object.fromEntries(
    Object.entries(tree as Record<string, Tree>).map(([name, branch]) => [name, walk(branch, join(name), visit)]),
  );
}

/** A tree of the same shape with `fn` applied to every tensor; `path` is like `layers.0.down`. */
export function map<T extends Tree>(tree: T, fn: Visit<Tensor>): T {
  return walk(tree, '', fn) as T;
}

/** Every tensor of a tree with its path, in order. */
export function leaves(tree: Tree): [path: string, leaf: Tensor][] {
  const out: [string, Tensor][] = [];
  walk(tree, '', (leaf, path) => {
    out.push([path, leaf]);
    return leaf;
  });
  return out;
}

/**
 * Splits a tree in two of the same shape: the leaves that satisfy `choose` and the rest, each with holes where the
 * other has its leaves. Freezing, adapters and inner and outer variables are all one `partition` (after equinox).
 */
export function partition(tree: Tree, choose: Visit<boolean>): [chosen: Tree, rest: Tree] {
  return [
    walk(tree, '', (leaf, path) => (choose(leaf, path) ? leaf : undefined)),
    walk(tree, '', (leaf, path) => (choose(leaf, path) ? undefined : leaf)),
  ];
}

/** Undoes `partition`: the first tree that has a leaf in a place gives it. @throws when shapes differ. */
export function combine(first: Tree, second: Tree): Tree {
  if (first === undefined) return second;
  if (second === undefined) return first;
  if (first instanceof tf.Tensor && second instanceof tf.Tensor) return first;
  const alike = Array.isArray(first) === Array.isArray(second);
  if (first instanceof tf.Tensor || second instanceof tf.Tensor || !alike) {
    throw new TypeError('combine: the trees have different shapes');
  }
  if (Array.isArray(first)) {
    const [a, b] = [first as readonly Tree[], second as readonly Tree[]];
    if (a.length !== b.length) throw new TypeError(`combine: lists of ${a.length} and ${b.length}`);
    return a.map((branch, i) => combine(branch, b[i]));
  }
  const [a, b] = [first as Record<string, Tree>, second as Record<string, Tree>];
  return Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])].map((k) => [k, combine(a[k], b[k])]));
}

/**
 * `fn` applied to the leaves that stand in the same places of two trees.
 * @throws TypeError when a place has a leaf in one tree only
 */
export function zip(fn: (a: Tensor, b: Tensor, path: string) => Tensor, first: Tree, second: Tree): Tree {
  const others = new Map(leaves(second));
  const out = walk(first, '', (leaf, path) => {
    const other = others.get(path);
    if (!other) throw new TypeError(`zip: only the first tree has ${path || 'a leaf'}`);
    others.delete(path);
    return fn(leaf, other, path);
  });
  for (const path of others.keys()) throw new TypeError(`zip: only the second tree has ${path || 'a leaf'}`);
  return out;
}

/** Frees every tensor of a tree. */
export function dispose(tree: Tree): void {
  for (const [, leaf] of leaves(tree)) if (!leaf.isDisposed) leaf.dispose();
}
