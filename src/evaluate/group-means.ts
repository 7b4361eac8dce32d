import { UsageError } from '../base/errors';

/** One member of a group: a mean over n items and its standard error, null where n is 1. */
export interface GroupMember {
  n: number;
  value: number;
  stderr: number | null;
}

/**
 * The mean of a group of independent means, as lm-evaluation-harness takes it: by size, with the pooled standard error, or
 * each member counting alike, with sqrt(sum of squared errors) / k.
 * @returns stderr null where a member's is unknown
 * @throws UsageError for a group without members or items
 */
export function groupMean(
  members: readonly GroupMember[],
  { weighted }: { weighted: boolean },
): { value: number; stderr: number | null } {
  const total = members.reduce((sum, { n }) => sum + n, 0);
  if (total === 0) throw new UsageError('the group has no items');
  const k = members.length;
  const value = members.reduce((sum, member) => sum + member.value * (weighted ? member.n / total : 1 / k), 0);
  if (members.some(({ stderr }) => stderr === null)) return { value, stderr: null };
  const squares = (weight: (n: number) => number) =>
    members.reduce((sum, { n, stderr }) => sum + weight(n) * stderr! ** 2, 0);
  // stderr^2 n is a member's variance; the pooled one weights it by n - 1.
  const variance = weighted ? squares((n) => n * (n - 1)) / (total - k) / total : squares(() => 1) / k ** 2;
  return { value, stderr: Math.sqrt(variance) };
}
