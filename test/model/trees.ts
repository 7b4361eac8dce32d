import fc from 'fast-check';
import type { Sequence } from '../../src/model/packed';

/** A trunk and up to three branches, each of which leaves somewhere on the path before it. */
export function treeOf(token: fc.Arbitrary<number>): fc.Arbitrary<Sequence> {
  const branch = fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), ids: fc.array(token, { maxLength: 4 }) });
  const parts = { ids: fc.array(token, { minLength: 1, maxLength: 6 }), branches: fc.array(branch, { maxLength: 3 }) };
  return fc.record(parts).map(({ ids, branches }) => {
    let length = ids.length;
    const placed = branches.map(({ at, ids: own }) => {
      const after = Math.round(at * length);
      length = after + own.length;
      return { after, ids: own };
    });
    return { ids, branches: placed };
  });
}
