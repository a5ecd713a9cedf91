import type { ExpiryModel } from './adversary.js';
import type { Drift } from './rates.js';

/**
 * The boundaries as the mathematics puts them. Nothing that measures imports this file. Durations are µs, rates plain
 * fractions unless a name says ppm. Throughout, D is the drift allowance, d_req and d_resp the least delays of a request
 * and a reply, r_c and r_n the errors of a client's and of a node's clock, and g what a key's life falls short of its
 * TTL on the node's own clock.
 */

/** D = f · TTL + c, rounded up to whole milliseconds where the client does so. */
export function allowanceUs(ttlUs: number, { driftPpm, driftUs, driftWholeMs }: Drift): number {
  const exact = (ttlUs / 1_000_000) * driftPpm + driftUs;
  return driftWholeMs ? Math.ceil(exact / 1000) * 1000 : exact;
}

/**
 * g, µs: a key set at a phase φ of the node's tick is gone at the next whole tick after TTL ticks (`now > when`), or at
 * TTL ticks (`now >= when`); so g = φ − tick, or φ.
 */
export function shortfallUs({ expiry, resolutionUs, phaseUs }: ExpiryModel): number {
  return (phaseUs % resolutionUs) - (expiry === 'after' ? resolutionUs : 0);
}

/** g in the limit of continuous phases, µs: one tick more than at the most favourable phase. */
export function worstShortfallUs({ expiry, resolutionUs }: ExpiryModel): number {
  if (resolutionUs === 1) return shortfallUs({ expiry, resolutionUs, phaseUs: 0 });
  return expiry === 'after' ? 0 : resolutionUs;
}

/** Both sides of the safety condition claim / (1 − r_c) ≤ slack + life / (1 + r_n), before any error of rate. */
export interface Margin {
  /** What the holder believes on its own clock: TTL − D + q_c, q_c being how late its timer is. */
  readonly claimUs: number;
  /** What a key lives on its node's clock: TTL − g. */
  readonly lifeUs: number;
  /** d_req for validity soundness, d_req + d_resp for mutual exclusion: a rival's claim takes one reply more. */
  readonly slackUs: number;
}

/**
 * Greatest error of rate with which the safety condition holds. With r_c = r_n = r it is s r² + (c + l) r + (c − l − s) = 0
 * for claim c, life l and slack s, which for s = 0 is r = (l − c) / (l + c) = (D − q_c − g) / (2 TTL − D + q_c − g). Only
 * nodes: r_n = l / (c − s) − 1. Only the client: r_c = 1 − c / (l + s).
 */
export function greatestRate({ claimUs, lifeUs, slackUs }: Margin, erring: 'both' | 'nodes' | 'client'): number {
  if (erring === 'nodes') return lifeUs / (claimUs - slackUs) - 1;
  if (erring === 'client') return 1 - claimUs / (lifeUs + slackUs);
  const sum = claimUs + lifeUs;
  const short = lifeUs + slackUs - claimUs;
  return (2 * short) / (sum + Math.sqrt(sum * sum + 4 * slackUs * short));
}

/** How much the two sides of the safety condition move apart per ppm, µs. */
export function microsPerPpm({ claimUs, lifeUs }: Margin, rate: number, erring: 'both' | 'nodes' | 'client'): number {
  const client = erring === 'nodes' ? 0 : claimUs / (1 - rate) ** 2;
  const nodes = erring === 'client' ? 0 : lifeUs / (1 + rate) ** 2;
  return (client + nodes) / 1_000_000;
}

/** Faulty voters with which a rival finds q nodes: k_ME = max(0, m + q − N). */
export function faultyForExclusion(nodes: number, quorum: number, votes: number): number {
  return Math.max(0, votes + quorum - nodes);
}

/** Faulty voters with which fewer than q nodes are behind the holder: k_VS = m − q + 1. */
export function faultyForQuorum(quorum: number, votes: number): number {
  return votes - quorum + 1;
}

/**
 * Greatest harmless step of a clock: J ≤ D − g + d_req + d_resp, forward on the nodes or back on the holder; with rates,
 * (TTL − g − J) / (1 + r_n) + d_req + d_resp ≥ (TTL − D) / (1 − r_c).
 */
export function greatestStepUs({ claimUs, lifeUs, slackUs }: Margin, rate: number): number {
  return lifeUs - (1 + rate) * (claimUs / (1 - rate) - slackUs);
}

/** Supremum of the true times at which even the farthest step is of use: τ < T1 + TTL − D − d_resp. */
export function latestStepUs(claimUs: number, replyUs: number): number {
  return claimUs - replyUs;
}

/** Least absence of a node that crashes at x, in true time: R ≥ (TTL − D) / (1 − r_c) − (x − t1) − d_resp. */
export function leastAbsenceUs(claimUs: number, crashUs: number, replyUs: number, rate: number): number {
  return claimUs / (1 - rate) - crashUs - replyUs;
}

/** The same by a clock that runs fast by r_n and jumps forward by J meanwhile: (1 + r_n) · R + J. */
export function countedAbsenceUs(absenceUs: number, rate: number, stepUs: number): number {
  return (1 + rate) * absenceUs + stepUs;
}

/** Slowest harmless round if the new deadline counts from its replies: T2' − T1' ≤ D − g + d_req + d_resp. */
export function greatestElapsedUs({ claimUs, lifeUs, slackUs }: Margin): number {
  return lifeUs - claimUs + slackUs;
}

/** Nodes that must have carried out an extension: a rival finds q of those that did not while N − j ≥ q. */
export function leastExtendedNodes(nodes: number, quorum: number): number {
  return nodes - quorum + 1;
}

/** A late command that shortens a key's life to s lets a rival in iff lands + s − g + d_resp < T1' + TTL − D; s below this. */
export function overtakenBelowUs(deadlineUs: number, landsUs: number, shortfall: number, replyUs: number): number {
  return deadlineUs - replyUs - landsUs + shortfall;
}

/**
 * Longest belief with M extensions: TTL − D, and for each extension again TTL − D without its round trip and the least
 * time by which its reply comes before the old deadline (one quantum). So it stays below (M + 1) · TTL.
 */
export function longestBeliefUs(claimUs: number, roundTripUs: number, extensions: number, quantumUs: number): number {
  return claimUs + extensions * (claimUs - roundTripUs - quantumUs);
}

/** A split vote takes every one of U nodes without giving anybody q: U ≤ C · (q − 1). */
export function greatestSplitNodes(nodes: number, quorum: number, clients: number): number {
  return Math.min(nodes, clients * (quorum - 1));
}

/**
 * Free after a client's last word: Δ + (TTL − g + J_back) / (1 − r_n), Δ being the longest delay of its SETs. The step is
 * counted by the slow clock as well, and so belongs under the fraction.
 */
export function freeAfterSilenceUs(sentUs: number, lifeUs: number, setBackUs: number, slowRate: number): number {
  return sentUs + (lifeUs + setBackUs) / (1 - slowRate);
}

/**
 * Claim of a client that keeps trying, after the lock is free: its SETs may come just too early; then what is left of
 * the refused attempt (A − d_req, with A the round trip, or the time-out if nodes are missing), the longest pause, and
 * the attempt that succeeds.
 */
export function longestWaitUs(refusedUs: number, requestUs: number, pauseUs: number, roundTripUs: number): number {
  return refusedUs - requestUs + pauseUs + roundTripUs;
}

/**
 * Longest node time-out of a client that asks one node after the other, f of which are dead: what acquiring takes,
 * f · to + q · RTT, must leave more than nothing of TTL − D, and as much as is asked for.
 */
export function longestTimeoutUs(claimUs: number, minValidityUs: number, dead: number, roundTripsUs: number): number {
  return (claimUs - Math.max(minValidityUs, 1) - roundTripsUs) / dead;
}

/**
 * Append-only file, fsync every second: a SET is on disk when the first fsync that starts after it has completed, so a
 * loss of power harms for less than E − φ + τ after it (period E, SET φ after the start of an fsync, duration τ).
 */
export function powerWindowUs(everyUs: number, phaseUs: number, takesUs: number): number {
  return everyUs - phaseUs + takesUs;
}

/** The death of the process alone loses what Redis holds back while an fsync runs: for less than τ − φ after the SET. */
export function processWindowUs(phaseUs: number, takesUs: number): number {
  return takesUs - phaseUs;
}

/** If only an extension is lost the old expiry returns: harmless as long as T1' − T1 ≤ D − g + d_req + d_resp. */
export function lostExtensionUs({ claimUs, lifeUs, slackUs }: Margin): number {
  return lifeUs - claimUs + slackUs;
}

/**
 * Counters that must be lost until a later lock may get the token of an earlier one, whose number w nodes were raised to:
 * it reads q counters, and N − (w − k) of them tell nothing of that number; so k_F = max(0, w + q − N), as for votes.
 */
export function lostCounters(nodes: number, quorum: number, raised: number): number {
  return Math.max(0, raised + quorum - nodes);
}

/**
 * Longest one-way delay with which a lock is had, for all messages alike: r round trips (votes; counters read; counters
 * raised) leave more than nothing of TTL − D.
 */
export function longestDelayUs(claimUs: number, roundTrips: number, quantumUs: number): number {
  return (claimUs - quantumUs) / (2 * roundTrips);
}

/**
 * Latest arrival of a write after the check that found a validity M: before M is over on the client's clock, whatever
 * the time between went to (a pause of the client, or the network). On a clock that is fast by r that is M / (1 + r).
 */
export function latestEffectUs(guardUs: number, rate: number, quantumUs: number): number {
  return guardUs / (1 + rate) - quantumUs;
}
