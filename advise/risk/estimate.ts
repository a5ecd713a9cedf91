import { isInside } from './inside.js';
import { QUANTILE } from './interval.js';
import type { RiskModel } from './model.js';
import { overPerYear, type Part, partsOf, type Stratum, strataFrom } from './strata.js';
import { addCounts, NO_RUNS, runStratum, type StratumCounts, type StratumTask } from './stratum-runs.js';
import { type Known, type RiskEstimate, summary } from './summary.js';

/** Makes runs of strata, here or in workers; the order of its answers does not matter. */
export type RunStratum = (task: StratumTask) => StratumCounts | Promise<StratumCounts>;

/** How an estimate is made. */
export interface EstimateOptions {
  /** Default "1". */
  readonly seed?: string;
  /** Runs that count; those that find out how to share them come on top. Default 40 000. */
  readonly runs?: number;
  /** Quantile of the normal distribution that makes the intervals. Default: that of 95 %. */
  readonly quantile?: number;
  readonly run?: RunStratum;
  readonly signal?: AbortSignal;
  readonly onProgress?: (share: number) => void;
}

const DEFAULT_RUNS = 40_000;
const PILOT_RUNS = 64;
const INSIDE_RUNS = 16;
/** A worker gets so many runs at a time. */
const CHUNK = 1_000;
const MOST_STRATA = 1_200;
/** Strata are looked for until the rest comes to less than this share of the estimate. */
const REST = 0.01;
/** The main part numbers its runs from here, so that none is one of the pilot's. */
const MAIN_FROM = 1_000_000;
const TENFOLD = 10;
/** Causes whose share of the sum is at most this are not looked at for themselves. */
const NEGLIGIBLE = 0.001;

/**
 * Estimates how many holds a year are violated. Holds are sorted by what happens to them (strata); how many there are of each
 * sort follows from the rates, and of each sort the engine tells which share is violated. A pilot finds out where runs are
 * worth most; it does not count.
 */
export async function estimateRisk(model: RiskModel, options: EstimateOptions = {}): Promise<RiskEstimate> {
  const work = new Work(model, options);
  const parts = partsOf(model);
  const { known, rest } = await pilot(parts, work, model);
  const measured = known.filter((it) => !it.inside || it.pilot.hits > 0);
  const counts = await measure(measured, work, options.runs ?? DEFAULT_RUNS);
  const { quantile = QUANTILE } = options;
  return summary({ known, measured, counts, rest, interrupted: work.interrupted, quantile });
}

/** Makes runs, and keeps account of them. */
class Work {
  private readonly model: RiskModel;
  private readonly options: EstimateOptions;
  made = 0;

  constructor(model: RiskModel, options: EstimateOptions) {
    this.model = model;
    this.options = options;
  }

  get interrupted(): boolean {
    return this.options.signal?.aborted === true;
  }

  progress(share: number): void {
    this.options.onProgress?.(share);
  }

  /** Runs `count` of a stratum from number `from` on. */
  async make(stratum: Stratum, from: number, count: number): Promise<StratumCounts> {
    const { seed = '1', run = runStratum } = this.options;
    const chunks = Array.from({ length: Math.ceil(count / CHUNK) }, (_, i) => from + i * CHUNK);
    let total = NO_RUNS;
    const tasks = chunks.map(async (at) => {
      // Lets an interruption in.
      await new Promise((resolve) => setImmediate(resolve));
      if (this.interrupted) return NO_RUNS;
      return run({ model: this.model, stratum, seed, from: at, to: Math.min(at + CHUNK, from + count) });
    });
    for (const counts of await Promise.all(tasks)) total = addCounts(total, counts);
    this.made += total.runs;
    return total;
  }
}

/** Strata by their holds a year, ten times rarer ones with each round, until what is left out does not matter. */
async function pilot(parts: readonly Part[], work: Work, model: RiskModel): Promise<{ known: Known[]; rest: number }> {
  const known = new Map<string, Known>();
  const over = overPerYear(parts);
  let least = model.locksPerYear;
  for (;;) {
    const strata = strataFrom(parts, least).filter(({ key }) => !known.has(key));
    const tried = await Promise.all(
      strata.map(async (stratum): Promise<Known> => {
        const inside = isInside(model, stratum);
        return { stratum, inside, pilot: await work.make(stratum, 0, inside ? INSIDE_RUNS : PILOT_RUNS) };
      }),
    );
    for (const it of tried) known.set(it.stratum.key, it);
    const all = [...known.values()];
    const found = all.reduce(
      (sum, { stratum, pilot: { hits, runs } }) => sum + (stratum.perYear * hits) / Math.max(1, runs),
      0,
    );
    const rest = Math.max(0, model.locksPerYear - over - all.reduce((sum, { stratum }) => sum + stratum.perYear, 0));
    const enough = rest <= REST * found || known.size >= MOST_STRATA || least < 1e-30;
    if (enough || work.interrupted) return { known: all, rest };
    least /= TENFOLD;
  }
}

/**
 * Shares the runs. Half of them make the interval of the sum as small as it can be: by weight and spread, as the pilot saw
 * them (Neyman 1934). The other half is parted evenly among the sets of causes that may matter, and in each in the same way.
 */
async function measure(strata: readonly Known[], work: Work, runs: number): Promise<StratumCounts[]> {
  const spread = strata.map(({ stratum, pilot: { hits, runs: tried } }) => {
    const share = (hits + 1) / (tried + 2);
    return stratum.perYear * Math.sqrt(share * (1 - share));
  });
  const total = spread.reduce((sum, it) => sum + it, 0);
  const sums = new Map<string, number>();
  for (const [i, { stratum }] of strata.entries())
    sums.set(setOf(stratum), (sums.get(setOf(stratum)) ?? 0) + (spread[i] ?? 0));
  const mattering = [...sums.values()].filter((it) => it >= NEGLIGIBLE * total).length;
  const wanted = strata.map(({ stratum }, i) => {
    const own = spread[i] ?? 0;
    const ofSet = sums.get(setOf(stratum)) ?? 0;
    const evenly = ofSet >= NEGLIGIBLE * total ? own / ofSet / mattering : 0;
    return Math.max(PILOT_RUNS, Math.round((runs / 2) * (own / total + evenly)));
  });
  let done = 0;
  return Promise.all(
    strata.map(async ({ stratum }, i) => {
      const counts = await work.make(stratum, MAIN_FROM, wanted[i] ?? 0);
      work.progress(++done / strata.length);
      return counts;
    }),
  );
}

/** The causes of the events of a stratum. */
function setOf({ events }: Stratum): string {
  return [...new Set(events.map(({ cause }) => cause))].sort().join('+');
}
