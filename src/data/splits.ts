import { UsageError } from '../base/errors';
import type { Random } from '../engine/random';

/**
 * Splits items at random into named shares, e.g. `{train: 0.8, test: 0.2}`: every item in exactly one split, in the order
 * given, sizes within one item of the share.
 * @throws UsageError when the shares are not positive or do not sum to 1
 */
export function splitByFraction<T, K extends string>(
  items: readonly T[],
  shares: Readonly<Record<K, number>>,
  random: Random,
): Record<K, T[]> {
  const names = checkShares(shares);
  const order = random.shuffle(items.map((_, index) => index));
  const splitOf = new Map<number, K>();
  let share = 0;
  let start = 0;
  for (const name of names) {
    share += shares[name];
    const end = name === names.at(-1) ? items.length : Math.round(share * items.length);
    for (const index of order.slice(start, end)) splitOf.set(index, name);
    start = end;
  }
  return collect(names, items, (_, index) => splitOf.get(index));
}

/**
 * Splits items so that no topic stands in two splits, which makes the others out of domain for each: topics go, largest
 * first and in random order among equals, to the split that is furthest below its share.
 * @throws UsageError as `splitByFraction`, and when there are fewer topics than splits
 */
export function splitByTopic<T, K extends string>(
  items: readonly T[],
  topicOf: (item: T) => string,
  shares: Readonly<Record<K, number>>,
  random: Random,
): Record<K, T[]> {
  const names = checkShares(shares);
  const sizes = new Map<string, number>();
  for (const item of items) sizes.set(topicOf(item), (sizes.get(topicOf(item)) ?? 0) + 1);
  if (sizes.size < names.length) {
    throw new UsageError(`${sizes.size} topics cannot be split into ${names.length} parts`);
  }
  const filled = new Map<K, number>(names.map((name) => [name, 0]));
  const missing = (name: K) => shares[name] - (filled.get(name) ?? 0) / items.length;
  const splitOf = new Map<string, K>();
  for (const [topic, size] of random.shuffle([...sizes]).sort((a, b) => b[1] - a[1])) {
    // The last topics go to splits that have none yet.
    const empty = names.filter((name) => filled.get(name) === 0);
    const open = sizes.size - splitOf.size <= empty.length ? empty : names;
    const name = open.reduce((best, next) => (missing(next) > missing(best) ? next : best));
    splitOf.set(topic, name);
    filled.set(name, (filled.get(name) ?? 0) + size);
  }
  return collect(names, items, (item) => splitOf.get(topicOf(item)));
}

function checkShares<K extends string>(shares: Readonly<Record<K, number>>): K[] {
  const names = Object.keys(shares) as K[];
  const sum = names.reduce((total, name) => total + shares[name], 0);
  if (names.some((name) => !(shares[name] > 0)) || Math.abs(sum - 1) > 1e-9) {
    throw new UsageError(`shares must be positive and sum to 1, got ${JSON.stringify(shares)}`);
  }
  return names;
}

function collect<T, K extends string>(
  names: readonly K[],
  items: readonly T[],
  splitOf: (item: T, index: number) => K | undefined,
): Record<K, T[]> {
  const result = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<K, T[]>;
  items.forEach((item, index) => {
    const name = splitOf(item, index);
    if (name !== undefined) result[name].push(item);
  });
  return result;
}

interface Asked {
  question: string;
  passage?: string;
  choices?: readonly string[];
  answers?: readonly string[];
}

/** A question as compared: letter case, Unicode compatibility forms, white space and punctuation at the ends aside. */
export function normaliseQuestion(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\p{White_Space}+/gu, ' ')
    .replace(/^[\p{P} ]+|[\p{P} ]+$/gu, '');
}

/**
 * Leaves out the items whose question also stands in `other` (the test set, when training items are chosen), with
 * whatever options, and the items that repeat an earlier one, options and all.
 */
export function dedupe<T extends Asked>(
  items: readonly T[],
  other: readonly Asked[] = [],
): { kept: T[]; removed: T[] } {
  const asked = ({ question, passage = '' }: Asked) => JSON.stringify([question, passage].map(normaliseQuestion));
  const whole = (item: Asked) =>
    asked(item) + JSON.stringify((item.choices ?? item.answers ?? []).map(normaliseQuestion).sort());
  const held = new Set(other.map(asked));
  const seen = new Set<string>();
  const kept: T[] = [];
  const removed: T[] = [];
  for (const item of items) {
    const key = whole(item);
    (held.has(asked(item)) || seen.has(key) ? removed : kept).push(item);
    seen.add(key);
  }
  return { kept, removed };
}

/** The first `limit` items; below 1, that share of them, rounded up. */
export function firstOf<T>(items: readonly T[], limit = items.length): readonly T[] {
  return items.slice(0, limit < 1 ? Math.ceil(limit * items.length) : limit);
}
