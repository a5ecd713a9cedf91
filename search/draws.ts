import type { Counts } from '../properties/coverage.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { DrawnRun } from './drawn-run.js';
import type { Genome } from './genome.js';
import type { NearMiss } from './near-miss.js';

/** Makes the runs of one search, one after the other. The same weather, streams and strategy make the same runs. */
export interface Draws {
  /** Makes the next run, to its end. One that violates a property of `found` is no near miss. */
  next(found: readonly PropertyId[], counts: Counts): DrawnRun;
  /** Makes the latest run again to its end, and writes it down. */
  record(): { readonly schedule: Schedule; readonly hash: string };
  /** What the latest run drew, where its number alone does not say it. */
  readonly genome: Genome | null;
  /** The nearest misses of its runs, one of each niche, where it keeps any. */
  nearest(): readonly NearMiss[];
}
