import type { Sequence } from './packed';

/** Token sequences that begin alike, as one tree in which each common beginning stands once. */
export interface Tree {
  sequence: Sequence;
  /** Tokens in it. */
  size: number;
  paths: {
    /** Which sequence. */ index: number;
    /** Where in the tree each of its tokens stands. */ places: number[];
  }[];
}

/**
 * Pairs of tokens whose attention takes as long as one token's linear layers: in a tree, attention is computed over its
 * size squared. Measured at 135M parameters; larger models have several times as many, for which it is cautious.
 */
const PAIRS_PER_TOKEN = 1000;

/**
 * Puts sequences into trees where that saves time: the options of a question after what they share, questions after
 * their common examples.
 * @param sequences token ids; none empty
 * @param mostTokens in a tree of more than one sequence
 * @returns trees in the order of their sequences; the same sequences give the same trees
 * @throws RangeError for an empty sequence
 */
export function growTrees(sequences: readonly (readonly number[])[], mostTokens = Infinity): Tree[] {
  const empty = sequences.findIndex((ids) => ids.length === 0);
  if (empty >= 0) throw new RangeError(`sequence ${empty} has no tokens, so there is nothing to condition on`);
  const order = [...sequences.keys()].sort((a, b) => compare(sequences[a]!, sequences[b]!));
  const trees: (Tree & { sequence: { branches: { after: number; ids: readonly number[] }[] } })[] = [];
  let before: readonly number[] = [];
  for (const index of order) {
    const ids = sequences[index]!;
    // In this order no earlier sequence shares more with it than the last one.
    const shared = sharedBeginning(ids, before);
    const added = ids.length - shared;
    const tree = trees.at(-1);
    if (tree && tree.size + added <= mostTokens && isSaving(tree.size, shared, added)) {
      const places = tree.paths.at(-1)!.places.slice(0, shared);
      for (let i = 0; i < added; i++) places.push(tree.size + i);
      if (added > 0) tree.sequence.branches.push({ after: shared, ids: ids.slice(shared) });
      tree.size += added;
      tree.paths.push({ index, places });
    } else {
      const paths = [{ index, places: [...ids.keys()] }];
      trees.push({ sequence: { ids, branches: [] }, size: ids.length, paths });
    }
    before = ids;
  }
  return trees;
}

/** Whether the tokens not computed again outweigh the larger square of attention. */
function isSaving(size: number, shared: number, added: number): boolean {
  const pairs = (size + added) ** 2 - size ** 2 - (shared + added) ** 2;
  return shared * PAIRS_PER_TOKEN > pairs;
}

function compare(a: readonly number[], b: readonly number[]): number {
  const shared = sharedBeginning(a, b);
  return (a[shared] ?? -1) - (b[shared] ?? -1);
}

/** How many tokens two sequences begin with alike. */
export function sharedBeginning(a: readonly number[], b: readonly number[]): number {
  const most = Math.min(a.length, b.length);
  let same = 0;
  while (same < most && a[same] === b[same]) same++;
  return same;
}
