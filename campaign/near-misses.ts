import { createHash } from 'node:crypto';
import type { NearMiss } from '../search/index.js';

/** A near miss that ranges of a search share. Plain data. */
export interface SharedNearMiss {
  /** 16 hexadecimal digits of what it is. */
  readonly id: string;
  /** Index of the search. */
  readonly search: number;
  readonly miss: NearMiss;
}

/** What a range of a guided search began with, and what it came to: enough to make it again by itself. */
export interface Begun {
  /** Of its runs. */
  readonly hash: string;
  /** Near misses, by id. */
  readonly inputs: readonly string[];
}

/** A near miss with the name under which it is shared: the same for the same run, whoever came to it. */
export function sharedOf(search: number, miss: NearMiss): SharedNearMiss {
  const id = createHash('sha256')
    .update(JSON.stringify([search, miss]))
    .digest('hex')
    .slice(0, 16);
  return { id, search, miss };
}

/** What the ranges of guided searches have come nearest with: the nearest miss of each niche. */
export class NearMisses {
  private readonly best = new Map<string, SharedNearMiss>();

  constructor(shared: readonly SharedNearMiss[] = []) {
    for (const it of shared) this.take(it);
  }

  /** Takes what a range came near with, and returns those that are the nearest so far. */
  offer(search: number, nearest: readonly NearMiss[]): SharedNearMiss[] {
    return nearest.map((miss) => sharedOf(search, miss)).filter((it) => this.take(it));
  }

  /** What a range that begins now is to begin with. */
  of(search: number): SharedNearMiss[] {
    return [...this.best.values()].filter((it) => it.search === search).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  private take(it: SharedNearMiss): boolean {
    const key = `${it.search} ${it.miss.niche}`;
    const best = this.best.get(key);
    if (best !== undefined && best.miss.distance <= it.miss.distance) return false;
    this.best.set(key, it);
    return true;
  }
}

/** The same near misses are always in the same order, since a range draws from them by their places. */
export function inOrder(misses: readonly NearMiss[]): NearMiss[] {
  return [...misses].sort((a, b) => (a.niche < b.niche ? -1 : 1));
}
