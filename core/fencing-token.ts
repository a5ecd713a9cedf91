import type { Token } from './commands.js';

/**
 * What a lock's holder shows to the resource, which refuses a token lower than one that it has seen (Kleppmann 2016).
 * Holders that follow each other have rising counters; holders that overlap may have the same one, and differ in the
 * token of their attempt.
 */
export interface FencingToken {
  readonly counter: number;
  /** `null` where a deviation leaves it out. */
  readonly attempt: Token | null;
}

/** Below 0 if `a` comes before `b`, above 0 if after, 0 if they are the same. */
export function compareFencingTokens(a: FencingToken, b: FencingToken): number {
  if (a.counter !== b.counter) return a.counter - b.counter;
  if (a.attempt === b.attempt) return 0;
  return a.attempt !== null && (b.attempt === null || a.attempt > b.attempt) ? 1 : -1;
}
