import type { Fate } from '../../scenarios/index.js';
import { type Attack, attack, EXACT, type ExpiryModel } from './adversary.js';
import { greatest } from './bisect.js';

/** The least rate and the greatest that a schedule can give to a clock, ppm. */
const MOST_PPM = 500_000;

/** The drift allowance of a client. */
export interface Drift {
  readonly driftPpm: number;
  readonly driftUs: number;
  readonly driftWholeMs: boolean;
}

/** What redis.io clients subtract: 1 % of the TTL and 2 ms. */
export const USUAL_DRIFT: Drift = { driftPpm: 10_000, driftUs: 2_000, driftWholeMs: false };
/** The same, rounded up to whole milliseconds, as the reference policy does. */
export const ROUNDED_DRIFT: Drift = { ...USUAL_DRIFT, driftWholeMs: true };
/** 1 % of the TTL and nothing else (redsync). */
export const PROPORTIONAL_DRIFT: Drift = { driftPpm: 10_000, driftUs: 0, driftWholeMs: false };

/** No allowance for drift. */
export const NO_DRIFT: Drift = { driftPpm: 0, driftUs: 0, driftWholeMs: false };

/** Which error of rate is asked for, and under which circumstances. */
export interface RateCase {
  readonly ttlMs: number;
  readonly drift: Drift;
  readonly delayUs: number;
  readonly grain?: ExpiryModel;
  /** Whose clocks err: the holder's is slow, those of `drifting` nodes are fast. Default: both. */
  readonly erring?: 'both' | 'nodes' | 'client';
  /** Votes of the holder, and how many of those nodes are fast. Default: a bare quorum of 5, all of them. */
  readonly votes?: number;
  readonly drifting?: number;
  /**
   * The holder counts a relative validity, from time stamps that are cut to milliseconds: the first loses nothing, the
   * second, just before the next millisecond, as much as can be. What it hears earlier it only believes later.
   */
  readonly cutStamps?: boolean;
  /** Stretches all durations, so that a microsecond of the simulation is finer in proportion. Not with millisecond grains. */
  readonly scale?: number;
}

/** The optimal schedule for one error of rate: slow holder, fast nodes, least delays, a rival at the first instant. */
export function rateAttack(wanted: RateCase, ppm: number): Attack {
  const { drift, grain = EXACT, erring = 'both', votes = 3, drifting = votes, scale = 1 } = wanted;
  const clientPpm = erring === 'nodes' ? 0 : -ppm;
  return attack({
    ttlMs: scale * wanted.ttlMs,
    delayUs: scale * wanted.delayUs,
    votes,
    grain,
    policy: {
      settings: { driftPpm: drift.driftPpm, driftUs: scale * drift.driftUs },
      deviations: [...(drift.driftWholeMs ? [] : ['drift-unrounded']), ...(wanted.cutStamps ? CUT_STAMPS : [])],
    },
    clientPpm,
    nodePpm: erring === 'client' ? 0 : ppm,
    drifting,
    fates: wanted.cutStamps ? answersAt(LAST_OF_STAMP_US, clientPpm, votes) : [],
  });
}

const CUT_STAMPS = ['stamps-us:1000', 'deadline-counted-after-us:0'];
/** What is cut off a stamp at most, µs. */
const LAST_OF_STAMP_US = 999;

/** The holder's answers arrive when its clock, which starts at 0, shows `localUs`. */
function answersAt(localUs: number, clientPpm: number, votes: number): Fate[] {
  const delayUs = Math.ceil(localUs / (1 + clientPpm / 1_000_000));
  return Array.from({ length: votes }, (_, i) => ({
    client: 'c1',
    operation: 'acquire',
    node: `n${i}`,
    direction: 'reply',
    delayUs,
  }));
}

/**
 * The greatest error of rate, in whole ppm, with which no two clients ever believe at once. Negative where it takes slow
 * nodes and a fast holder to be safe.
 */
export function greatestRateForExclusion(wanted: RateCase): number {
  return greatest(-MOST_PPM, MOST_PPM, (ppm) => !rateAttack(wanted, ppm).overlap);
}

/** The greatest error of rate, in whole ppm, with which a majority is behind the holder as long as it believes. */
export function greatestRateForValidity(wanted: RateCase): number {
  return greatest(-MOST_PPM, MOST_PPM, (ppm) => !rateAttack(wanted, ppm).thin);
}
