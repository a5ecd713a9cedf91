/**
 * What a user may choose. The lock is safe for every value from 0 up; but the two numbers of the drift allowance are
 * what it assumes of clocks, and without a node time-out, a jitter or a limit on extensions others may wait for ever.
 */
export interface Settings {
  /**
   * Votes to wait for before settling, from the quorum up to N, while nodes can still answer; with fewer the lock is
   * taken all the same once everybody has answered or timed out. More votes tolerate data loss on more nodes.
   */
  readonly votesWanted: 'quorum' | 'all' | number;
  /** How long one node may take to answer, µs of local time; `null` waits for ever. */
  readonly nodeTimeoutUs: number | null;
  /** Drift allowance in proportion to the TTL, parts per million (redis.io clients: 10 000). */
  readonly driftPpm: number;
  /** Drift allowance that does not depend on the TTL, µs (redis.io clients: 2 000). */
  readonly driftUs: number;
  /** Validity below this counts as a failed attempt, µs. */
  readonly minValidityUs: number;
  /** Attempts per acquisition, at least 1; `null` tries for ever. */
  readonly tries: number | null;
  /** No attempt begins later than this after the call, µs of local time; `null` for no such limit. */
  readonly acquireTimeoutUs: number | null;
  /** Mean pause between attempts, µs. */
  readonly retryDelayUs: number;
  /** The pause is drawn uniformly within ± this, µs. */
  readonly retryJitterUs: number;
  /** How often a release that did not succeed is sent in all, at least once; `null` for ever. */
  readonly releaseTries: number | null;
  /** Most successful extensions of one lock; `null` for no limit, with which others may never get it. */
  readonly maxExtensions: number | null;
  /** Extends by itself when this much validity is left, µs; `null` never. */
  readonly autoExtendAtUs: number | null;
  /** The same as a share of the TTL, ppm; what comes first of both. */
  readonly autoExtendAtPpm: number | null;
  /** Least pause between two automatic extensions, µs. */
  readonly autoExtendSpacingUs: number;
  /** Keys outlive the hold by this, ms, unless it is released: others get a lost lock so much later (Chubby). */
  readonly lockDelayMs: number;
  /**
   * Whether a lock comes with a fencing token: once the votes are in, the lock reads the counters of a quorum, raises a
   * quorum to one more, and is taken only then. The token is that number and the attempt's own token.
   */
  readonly fencing: boolean;
}

/** What is chosen where nothing is said. */
export const DEFAULT_SETTINGS: Settings = Object.freeze<Settings>({
  votesWanted: 'quorum',
  nodeTimeoutUs: 50_000,
  driftPpm: 10_000,
  driftUs: 2_000,
  minValidityUs: 0,
  tries: 11,
  acquireTimeoutUs: null,
  retryDelayUs: 200_000,
  retryJitterUs: 100_000,
  releaseTries: 1,
  maxExtensions: 10,
  autoExtendAtUs: null,
  autoExtendAtPpm: null,
  autoExtendSpacingUs: 100_000,
  lockDelayMs: 0,
  fencing: false,
});

/** Where the pause after an attempt lies if nothing else is said: in the middle of its range, ppm. */
export const MIDDLE_JITTER_PPM = 500_000;

/** Whether a lock is extended without being asked to. */
export function extendsItself({ autoExtendAtUs, autoExtendAtPpm }: AutoExtension): boolean {
  return autoExtendAtUs !== null || autoExtendAtPpm !== null;
}

type AutoExtension = Pick<Settings, 'autoExtendAtUs' | 'autoExtendAtPpm'>;

/** What is assumed of clocks. */
export type Drift = Pick<Settings, 'driftPpm' | 'driftUs'>;

/** The drift allowance before it is rounded up to whole ms, which absorbs what truncated time stamps can lose. */
export function exactAllowance(ttlUs: number, { driftPpm, driftUs }: Drift): number {
  // Split so that the product stays exact for TTLs of centuries.
  return Math.floor(ttlUs / 1_000_000) * driftPpm + Math.ceil(((ttlUs % 1_000_000) * driftPpm) / 1_000_000) + driftUs;
}
