import { type CampaignPart, noPart, spansOf, totalOf } from '../part.js';
import type { CampaignSpec } from '../spec.js';
import { PACE_S, type StoredResults, type Throughput } from './result-store.js';

/** How far a campaign is, for people. */
export interface CampaignState {
  /** What it came to; which ranges those are is told where the books are read with them. */
  readonly part: CampaignPart;
  readonly waiting: number;
  readonly active: number;
  /** Machines that have joined. */
  readonly workers: number;
  readonly runsPerSecond: number;
  /** Time left at this speed, s, if there is any. */
  readonly leftS: number | null;
  readonly elapsedS: number;
  readonly isOver: boolean;
  /** Ranges that could not be made. */
  readonly failed: readonly { readonly index: number; readonly why: string }[];
  readonly unkept: number;
  readonly mismatches: number;
  /** By time. */
  readonly pace: readonly Throughput[];
}

/** The speed is that of so many seconds. */
const RECENT_S = 6 * PACE_S;

/** Sums the books up. */
export function stateOf(
  spec: CampaignSpec,
  books: StoredResults,
  indices: readonly number[],
  jobs: { readonly waiting: number; readonly active: number; readonly workers: number; readonly isOver: boolean },
): CampaignState {
  const part: CampaignPart = {
    ...noPart(spec),
    done: spansOf(indices),
    tallies: books.tallies,
    failures: books.failures,
  };
  const { elapsedS, workedS } = books;
  const until = jobs.isOver ? workedS : elapsedS;
  const since = Math.max(0, until - RECENT_S);
  const recent = books.pace.filter(({ atS }) => atS + PACE_S > since).reduce((sum, { runs }) => sum + runs, 0);
  const runsPerSecond = recent / Math.max(1, Math.min(until, RECENT_S + PACE_S));
  const runsLeft = spec.runs - totalOf(part).runs;
  return {
    part,
    ...jobs,
    runsPerSecond,
    leftS: jobs.isOver || runsPerSecond === 0 ? null : runsLeft / runsPerSecond,
    elapsedS: jobs.isOver ? workedS : elapsedS,
    failed: Object.entries(books.failed).map(([index, why]) => ({ index: Number(index), why })),
    unkept: books.unkept,
    mismatches: books.mismatches,
    pace: [...books.pace].sort((a, b) => a.atS - b.atS || a.search - b.search),
  };
}
