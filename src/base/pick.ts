import { distance } from 'fastest-levenshtein';
import { UsageError } from './errors';

/**
 * Looks `name` up in a table of named things.
 * @throws UsageError that suggests the nearest names, or lists what exists where none is near.
 */
export function pick<T>(kind: string, name: string, table: Readonly<Record<string, T>>): T {
  const found = Object.hasOwn(table, name) ? table[name] : undefined;
  if (found !== undefined) return found;
  throw unknownName(kind, name, Object.keys(table));
}

/** The error for an unknown name, with the nearest of `names` suggested. */
export function unknownName(kind: string, name: string, names: readonly string[]): UsageError {
  const near = names
    .map((n) => ({ n, d: distance(n.toLowerCase(), name.toLowerCase()) }))
    .filter(({ n, d }) => d <= Math.max(2, Math.floor(n.length / 3)) || n.toLowerCase().includes(name.toLowerCase()))
    .sort((a, b) => a.d - b.d)
    .slice(0, 3)
    .map(({ n }) => n);
  const remedy = near.length > 0 ? `did you mean ${near.join(' or ')}?` : `there are: ${[...names].sort().join(', ')}`;
  return new UsageError(`unknown ${kind} "${name}"`, { remedy });
}
