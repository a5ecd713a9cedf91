import { type Counted, type Interval, weightedSum } from './interval.js';
import type { CauseName } from './model.js';
import type { Stratum } from './strata.js';
import type { StratumCounts } from './stratum-runs.js';

/** What is expected of one set of causes: these, and no others, are needed for the violation. */
export interface CauseRisk {
  /** Empty where a violation needs no event at all. */
  readonly causes: readonly CauseName[];
  readonly perYear: Interval;
  /** A run that shows it. */
  readonly example: { readonly stratum: Stratum; readonly run: number };
}

/** What is to be expected of a system, per year. */
export interface RiskEstimate {
  /** Holds in which something is violated. What was not looked at is in the upper end, and in no other figure. */
  readonly perYear: Interval;
  readonly overlap: Interval;
  readonly late: Interval;
  readonly disordered: Interval;
  /** The greatest first. */
  readonly causes: readonly CauseRisk[];
  readonly method: Method;
  readonly interrupted: boolean;
}

/** How an estimate was made, and what speaks for it. */
export interface Method {
  readonly runs: number;
  readonly pilotRuns: number;
  readonly hits: number;
  /** Strata whose share of violations was measured, and those that keep all assumptions. */
  readonly measured: number;
  readonly inside: number;
  /** Runs in the latter; a hit there makes a stratum a measured one. */
  readonly insideRuns: number;
  /** Holds a year that were not looked at, because so many events rarely come together; counted in the upper end. */
  readonly restPerYear: number;
  /** How far the two halves of the runs differ, in standard deviations; beyond 3 something is wrong. */
  readonly halves: number;
}

/** One stratum with what is known of it. */
export interface Known {
  readonly stratum: Stratum;
  readonly inside: boolean;
  readonly pilot: StratumCounts;
}

/** All that was found out. */
interface Found {
  readonly known: readonly Known[];
  /** Those of them whose share was measured, and by their places the outcome. */
  readonly measured: readonly Known[];
  readonly counts: readonly StratumCounts[];
  readonly rest: number;
  readonly interrupted: boolean;
  /** See {@link QUANTILE}. */
  readonly quantile: number;
}

/** Adds up what was found out. */
export function summary(found: Found): RiskEstimate {
  const { measured, counts, rest, known, interrupted } = found;
  const of = (hits: (counts: StratumCounts) => number): Interval => weightedSum(countedOf(found, hits), found.quantile);
  const all = of((it) => it.hits);
  const inside = known.filter((it) => !measured.includes(it));
  return {
    perYear: { ...all, high: all.high + rest },
    overlap: of((it) => it.overlap),
    late: of((it) => it.late),
    disordered: of((it) => it.disordered),
    causes: causesOf(found),
    method: {
      runs: counts.reduce((sum, it) => sum + it.runs, 0),
      pilotRuns: known.reduce((sum, it) => sum + it.pilot.runs, 0),
      hits: counts.reduce((sum, it) => sum + it.hits, 0),
      measured: measured.length,
      inside: inside.length,
      insideRuns: inside.reduce((sum, it) => sum + it.pilot.runs, 0),
      restPerYear: rest,
      halves: halvesOf(found),
    },
    interrupted,
  };
}

function countedOf({ measured, counts }: Found, hits: (counts: StratumCounts) => number): Counted[] {
  return measured.map(({ stratum }, i) => {
    const own = counts[i];
    return { hits: own === undefined ? 0 : hits(own), runs: own?.runs ?? 0, weight: stratum.perYear };
  });
}

/** By what was needed for the violations; of each only strata in which that can be. */
function causesOf(found: Found): CauseRisk[] {
  const names = new Set(found.counts.flatMap((it) => Object.keys(it.causes)));
  const causes = [...names].map((name): CauseRisk => {
    const able = found.measured.map(
      ({ stratum }, i) => (found.counts[i]?.causes[name] ?? 0) > 0 || isAble(stratum, name),
    );
    const strata = countedOf(found, (it) => it.causes[name] ?? 0).filter((_, i) => able[i]);
    const first = found.counts.findIndex((it) => it.examples[name] !== undefined);
    const stratum = found.measured[first]?.stratum;
    if (stratum === undefined) throw new RangeError(`no run shows ${name}`);
    return {
      causes: name === '' ? [] : (name.split('+') as CauseName[]),
      perYear: weightedSum(strata, found.quantile),
      example: { stratum, run: found.counts[first]?.examples[name] ?? 0 },
    };
  });
  return causes.sort((a, b) => b.perYear.value - a.perYear.value);
}

function isAble({ events, part }: Stratum, name: string): boolean {
  const there = [...events, ...part.frequent].map(({ cause }) => cause);
  const needed = name === '' ? [] : name.split('+');
  return (
    needed.length > 0 && needed.every((cause) => there.some((it) => it === cause)) && events.length === needed.length
  );
}

/** The difference of what runs with even and with odd numbers estimate, in its standard deviations. */
function halvesOf({ measured, counts }: Found): number {
  let [difference, variance] = [0, 0];
  for (const [i, { stratum }] of measured.entries()) {
    const { hits = 0, odd = 0, runs = 0 } = counts[i] ?? {};
    if (hits === 0) continue;
    const share = hits / runs;
    difference += (stratum.perYear * (hits - 2 * odd)) / (runs / 2);
    variance += (stratum.perYear ** 2 * share * (1 - share) * 4) / runs;
  }
  return variance === 0 ? 0 : difference / Math.sqrt(variance);
}
