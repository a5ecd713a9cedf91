import type { MakeLock } from '../lock-under-test.js';
import type { ViolationKind } from '../search/kinds.js';
import type { Connect } from './connected.js';

/** An npm library that the matrix knows. */
export interface Library {
  /** How it is named in commands. */
  readonly id: string;
  /** The npm package, and its version. */
  readonly package: string;
  readonly version: string;
  /** Its own client, where it brings none, as npm installs it: `redis4@npm:redis@4.7.1`. */
  readonly client?: string;
  /** What is taken for its belief: what it exposes. */
  readonly belief: string;
  /** Whether it can keep a lock alive by itself. */
  readonly extendsItself: boolean;
  /** The key that it makes of the name of a lock; that name where left out. */
  readonly keyOf?: (name: string) => string;
  /** A lock that is made for one node; for several where left out. */
  readonly nodes?: 1;
  /** Kinds of failure that it never promised to avoid, and that are not told; none where left out. */
  readonly notPromised?: readonly ViolationKind[];
  /**
   * Loads it, unmodified. The dispatchers are in their places by then.
   *
   * @param connect - For several nodes: how it gets its clients. It makes them where left out.
   */
  readonly load: (connect?: Connect) => Promise<MakeLock>;
}

/** Retries of an acquisition, and the pause between them, ms: few and short, so that a run is short. */
export const RETRIES = 3;

/** Between two tries of a library, ms. */
export const RETRY_DELAY_MS = 100;

/** What is drawn on top of it at most, ms. */
export const RETRY_JITTER_MS = 50;

/**
 * What a lock on one node leaves to its TTL: a key that it has set without hearing of it. On several nodes such keys keep
 * others from a majority, and Redlock deletes them.
 */
export const LEFT_TO_THE_TTL: readonly ViolationKind[] = ['leak'];

/** Tries as often, for a library that leaves that to its caller. */
export async function untilGiven<T>(attempt: () => Promise<T | null>): Promise<T | null> {
  for (let retry = 0; ; retry++) {
    const held = await attempt();
    if (held !== null || retry === RETRIES) return held;
    await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS));
  }
}
