import type { Genome } from './genome.js';

/**
 * A run that came near a violation, as a range of a guided search can begin with it: what it drew, not what came of it, so
 * that changes of it keep to the weather. Plain data; it means something in searches of the same weather and seed only.
 */
export interface NearMiss {
  /** What it is near to, and under which strain and TTL: near misses of one niche are compared. */
  readonly niche: string;
  /** How near: µs, or votes to spare. */
  readonly distance: number;
  readonly genome: Genome;
  /** How often it drew for each concern. */
  readonly draws: readonly number[];
}
