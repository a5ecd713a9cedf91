import type { RangeResult, SearchPlan } from './range.js';

/** Makes ranges of a search elsewhere, several at a time. */
export interface SearchPool {
  /** How many at a time. */
  readonly size: number;
  /** Makes the runs from `from` to `to`, without `to`, up to the first finding; rejects if its worker fails. */
  search(plan: SearchPlan, from: number, to: number): Promise<RangeResult>;
  /** Ends it, with all that it is at. */
  close(): Promise<void>;
}

/**
 * Runs of a range that is made elsewhere: long enough that sending it costs little, and short enough that not much is
 * thrown away where a search ends.
 */
const RANGE_RUNS = 256;
/** Ranges in hand for each worker, so that none waits for a slow one of another. */
const AHEAD = 4;

/**
 * The ranges of a search from run `from` to `to`, in order, made by a pool. A reader ends it by reading no
 * further.
 */
export class PooledRanges {
  private readonly pool: SearchPool;
  private readonly plan: SearchPlan;
  private readonly to: number;
  private next: number;
  private readonly inHand: Promise<RangeResult>[] = [];

  constructor(pool: SearchPool, plan: SearchPlan, from: number, to: number) {
    this.pool = pool;
    this.plan = plan;
    this.next = from;
    this.to = to;
  }

  /** The next range; `null` behind the last one. Asked again before it is there, it is the same one. */
  head(): Promise<RangeResult> | null {
    while (this.inHand.length < AHEAD * this.pool.size && this.next < this.to) {
      const end = Math.min(this.to, this.next + RANGE_RUNS);
      const range = this.pool.search(this.plan, this.next, end);
      // One that nobody comes to read is no failure of the search.
      range.catch(() => {});
      this.inHand.push(range);
      this.next = end;
    }
    return this.inHand[0] ?? null;
  }

  /** Goes on to the range behind the head. */
  shift(): void {
    this.inHand.shift();
  }
}
