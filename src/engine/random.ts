import { createHash } from 'node:crypto';
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus';

/**
 * A seeded source of randomness. Every use draws from its own named stream (`random.stream('bootstrap')`), so that
 * adding one use never changes the numbers of another, and `state` / `at` continue a run where it stopped.
 */
export class Random {
  private readonly generator;

  constructor(
    /** The seed and the names of the streams that led here, for the record. */
    readonly path: string,
    state?: readonly number[],
  ) {
    // All 128 bits come from a hash of seed and names, so streams are independent of each other.
    const digest = createHash('sha256').update(path).digest();
    this.generator = xoroshiro128plusFromState(state ?? [0, 4, 8, 12].map((i) => digest.readInt32LE(i)));
  }

  /** The source for one seed. */
  static seed(seed: number): Random {
    return new Random(`seed ${seed}`);
  }

  /** An independent stream, the same for the same seed and name however much was drawn elsewhere. */
  stream(name: string): Random {
    const escaped = name.replace(/[\\/]/g, '\\$&'); // so that stream('a/b') is not stream('a').stream('b')
    return new Random(`${this.path}/${escaped}`);
  }

  /** The generator's state, from which `at` continues. */
  get state(): number[] {
    return [...this.generator.getState()];
  }

  /** The same stream at another state: continues where that state was taken. */
  at(state: readonly number[]): Random {
    return new Random(this.path, state);
  }

  /** Uniform in [0, 1), 53 bits. */
  uniform(): number {
    return uniformFloat64(this.generator);
  }

  /** A uniform integer in [0, n). */
  integer(n: number): number {
    if (!Number.isSafeInteger(n) || n < 1) throw new RangeError(`integer(n) wants a positive integer, got ${n}`);
    return uniformInt(this.generator, 0, n - 1);
  }

  /** A standard normal number (Box-Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** A shuffled copy (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.integer(i + 1);
      [out[i], out[j]] = [out[j] as T, out[i] as T];
    }
    return out;
  }

  /** k different items, in random order. */
  sample<T>(items: readonly T[], k: number): T[] {
    if (k > items.length) throw new RangeError(`cannot draw ${k} of ${items.length} items`);
    return this.shuffle(items).slice(0, k);
  }
}
