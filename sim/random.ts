import { xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import seedrandom from 'seedrandom';
import { mix } from './hash.js';

/** One sequence of draws. Cheap to make, so that every concern of every run has its own. */
export class RandomStream {
  private readonly generator: RandomGenerator;

  constructor(generator: RandomGenerator) {
    this.generator = generator;
  }

  /** The next 32 bits, as they come. */
  word(): number {
    return this.generator.next();
  }

  /** A whole number from 0 to `n - 1`; `n` at most 2³². */
  below(n: number): number {
    const scaled = ((this.generator.next() >>> 0) * n) / 4294967296;
    // The same, but in the integers of the engine, where the result fits them.
    return n <= 2147483648 ? scaled | 0 : Math.floor(scaled);
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** True in `ppm` of a million draws. */
  chance(ppm: number): boolean {
    return ppm > 0 && (ppm >= 1_000_000 || this.below(1_000_000) < ppm);
  }

  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.below(list.length)] ?? list[0];
  }

  /** A random subset of `0 … n - 1` with `k` members, ascending. */
  subset(n: number, k: number): number[] {
    const chosen: number[] = [];
    for (let i = 0; i < n && chosen.length < k; i++) {
      if (this.below(n - i) < k - chosen.length) chosen.push(i);
    }
    return chosen;
  }
}

/** Where streams come from: one for each run and concern. */
export interface StreamSource {
  stream(run: number, concern: number): RandomStream;
}

/**
 * Streams from a person's seed, any string. `seedrandom` turns it into well-mixed words, once; each stream is a fast
 * generator whose state is those words mixed with the run's number and the concern's, because adjacent small seeds
 * would give correlated sequences. A draw added to one concern does not shift the others.
 */
export class RandomStreams implements StreamSource {
  private readonly words: readonly number[];

  constructor(seed: string) {
    // Its key schedule repeats a short key, so that '1' and '11' alone would be the same; the length tells them apart.
    const source = seedrandom(`lockstep ${seed.length} ${seed}`);
    this.words = [source.int32(), source.int32(), source.int32(), source.int32()];
  }

  stream(run: number, concern: number): RandomStream {
    const salt = Math.imul(run, 0x9e3779b1) ^ Math.imul(concern + 1, 0x85ebca77) ^ Math.floor(run / 4294967296);
    const { words } = this;
    const state: number[] = [];
    for (let i = 0; i < words.length; i++) state.push(mix((words[i] ?? 0) ^ mix(salt + Math.imul(i, 0x27d4eb2f))));
    return new RandomStream(xoroshiro128plusFromState(state));
  }
}
