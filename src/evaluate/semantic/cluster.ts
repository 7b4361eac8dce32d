import { UsageError } from '../../base/errors';
import { pick } from '../../base/pick';

/** `complete`: all answers of a cluster mean the same, each with each. `components`: a chain of the same is enough. */
export type Linkage = 'complete' | 'components';

/**
 * Clusters answers by which of them mean the same, whatever the order in which they were sampled.
 *
 * A relation of meaning need not be transitive (A as B, B as C, A not as C), and then `complete` has to choose where B goes.
 * Its choice is by content alone. Answers with the same row in `same` cannot be told apart by the relation and are one class
 * from the start, equal texts among them. Classes are taken by how many answers they have, most first, and by their
 * smallest text in code units where that is equal; each joins the first cluster all of whose members it is the same as, the
 * clusters standing in the order in which they were begun, or else begins one. So B goes with the more frequent of A and C,
 * and with the one that is first by text where they are as frequent. Greedy, not the partition into the fewest clusters,
 * which is NP-hard.
 *
 * `components` has no choice: its clusters are the classes of the transitive closure.
 * @param same symmetric, true on the diagonal, alike for equal answers, as `Equivalence.matrix` gives it
 * @returns for each answer its cluster, numbered in the order in which they first appear
 * @throws UsageError for a matrix that is none of that, or an unknown linkage
 */
export function clusterAnswers(
  answers: readonly string[],
  same: readonly (readonly boolean[])[],
  linkage: Linkage = 'complete',
): number[] {
  const join = pick('linkage', linkage, JOINS);
  const classes = classesOf(answers, same);
  const clusters: number[][] = [];
  for (const { members } of classes) {
    const joined = join(clusters, (cluster) => cluster.map((other) => same[members[0]!]![other]!));
    if (joined.length === 0) clusters.push(members);
    else {
      clusters[joined[0]!] = joined.flatMap((c) => clusters[c]!).concat(members);
      for (const c of joined.slice(1).reverse()) clusters.splice(c, 1);
    }
  }
  return numbered(answers.length, clusters);
}

/** To which of the clusters so far a class belongs, given how it relates to the members of one. */
type Join = (clusters: readonly number[][], relation: (cluster: readonly number[]) => boolean[]) => number[];

const JOINS: Readonly<Record<Linkage, Join>> = {
  complete: (clusters, relation) => {
    const first = clusters.findIndex((cluster) => relation(cluster).every(Boolean));
    return first < 0 ? [] : [first];
  },
  components: (clusters, relation) =>
    [...clusters.keys()].filter((cluster) => relation(clusters[cluster]!).some(Boolean)),
};

/** Answers that the relation does not tell apart, in the order by content that `clusterAnswers` describes. */
function classesOf(answers: readonly string[], same: readonly (readonly boolean[])[]) {
  if (same.length !== answers.length || same.some((row) => row.length !== answers.length)) {
    throw new UsageError(`the relation is not a matrix of ${answers.length} by ${answers.length}`);
  }
  const rowOf = new Map<string, string>();
  const classes = new Map<string, { members: number[]; text: string }>();
  answers.forEach((answer, i) => {
    const row = same[i]!;
    if (!row[i]) throw new UsageError(`the relation does not hold between ${JSON.stringify(answer)} and itself`);
    if (row.some((value, j) => value !== same[j]![i])) throw new UsageError('the relation is not symmetric');
    const key = row.map(Number).join('');
    if ((rowOf.get(answer) ?? key) !== key) {
      throw new UsageError(`the relation tells equal answers apart: ${JSON.stringify(answer)}`);
    }
    rowOf.set(answer, key);
    const found = classes.get(key);
    if (!found) classes.set(key, { members: [i], text: answer });
    else {
      found.members.push(i);
      if (answer < found.text) found.text = answer;
    }
  });
  return [...classes.values()].sort((a, b) => b.members.length - a.members.length || (a.text < b.text ? -1 : 1));
}

function numbered(n: number, clusters: readonly number[][]): number[] {
  const clusterOf = new Array<number>(n);
  clusters.forEach((members, cluster) => members.forEach((i) => (clusterOf[i] = cluster)));
  const numbers = new Map<number, number>();
  return clusterOf.map((cluster) => {
    if (!numbers.has(cluster)) numbers.set(cluster, numbers.size);
    return numbers.get(cluster)!;
  });
}

/**
 * Whether each cluster is right: when at least half of its answers are. All of them mean the same, so where rules of words
 * disagree on them, one side erred. A half is enough, for such rules miss right answers in unforeseen words more often than
 * they accept wrong ones; less is not, for a single accident of words would then decide.
 * @param clusters the cluster of each answer, as `clusterAnswers` numbers them
 * @param correct whether each answer is right, see `isCorrect`
 * @returns by cluster
 * @throws UsageError when there are not as many of one as of the other, or a cluster is not a number from 0 on
 */
export function clusterCorrect(clusters: readonly number[], correct: readonly boolean[]): boolean[] {
  if (clusters.length !== correct.length) {
    throw new UsageError(`${correct.length} judgements for ${clusters.length} answers`);
  }
  const wrong = clusters.find((cluster) => !Number.isSafeInteger(cluster) || cluster < 0 || cluster >= clusters.length);
  if (wrong !== undefined) throw new UsageError(`${wrong} is not the number of a cluster`);
  const balance = new Array<number>(Math.max(-1, ...clusters) + 1).fill(NaN);
  clusters.forEach((cluster, i) => {
    const before = balance[cluster]!;
    balance[cluster] = (Number.isNaN(before) ? 0 : before) + (correct[i] ? 1 : -1);
  });
  return balance.map((sum) => sum >= 0);
}
