import type { Fault } from '../../scenarios/index.js';
import { type Attack, attack, EXACT, type Grain } from './adversary.js';
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
export const NO_DRIFT: Drift = { driftPpm: 0, driftUs: 0, driftWholeMs: false };

/** Which error of rate is asked for, and under which circumstances. */
export interface RateCase {
  readonly ttlMs: number;
  readonly drift: Drift;
  readonly delayUs: number;
  readonly grain?: Grain;
  /** Whose clocks err: the holder's is slow, those of `drifting` nodes are fast. Default: both. */
  readonly erring?: 'both' | 'nodes' | 'client';
  /** Votes of the holder, and how many of those nodes are fast. Default: a bare quorum of 5, all of them. */
  readonly votes?: number;
  readonly drifting?: number;
  /**
   * How much later than its deadline says the holder stops believing, µs on its clock: a relative timer that was started
   * from truncated time stamps. No policy has such a timer; a clock that is set back at the claim amounts to the same.
   */
  readonly timerLateUs?: number;
  /** Stretches all durations, so that a microsecond of the simulation is finer in proportion. Not with millisecond grains. */
  readonly scale?: number;
}

/** The optimal schedule for one error of rate: slow holder, fast nodes, least delays, a rival at the first instant. */
export function rateAttack(wanted: RateCase, ppm: number): Attack {
  const { drift, grain = EXACT, erring = 'both', votes = 3, drifting = votes, timerLateUs = 0, scale = 1 } = wanted;
  const delayUs = scale * wanted.delayUs;
  const late: Fault = {
    kind: 'clock-step',
    atUs: 2 * delayUs,
    edge: 'after',
    process: 'c1',
    byUs: -scale * timerLateUs,
  };
  return attack({
    ttlMs: scale * wanted.ttlMs,
    delayUs,
    votes,
    grain,
    policy: { ...drift, driftUs: scale * drift.driftUs },
    clientPpm: erring === 'nodes' ? 0 : -ppm,
    nodePpm: erring === 'client' ? 0 : ppm,
    drifting,
    faults: timerLateUs === 0 ? [] : [late],
  });
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
