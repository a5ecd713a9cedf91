import { LONGEST_US } from '../core/index.js';
import { deviationNumber, driftAllowanceUs, quorumOf } from '../deviations/index.js';
import { EXACT } from '../search/safety-map/adversary.js';
import { countedAbsenceUs, faultyForExclusion, shortfallUs } from '../search/safety-map/computed.js';
import { countsCutStamps, type RestartClock, type Stress } from './attacks.js';
import { timedFor, timeoutShareUs } from './libraries.js';
import { acquiringUs } from './silence.js';

/*
 * The figures as the mathematics puts them, from (TTL − D + q + J_c) / (1 − r) + S ≤ 2d + (TTL − g − J_n) / (1 + r): D is the
 * drift allowance, g what a key's life falls short of its TTL, q what cut time stamps add to a validity, J_c and J_n the steps of the holder's and its voters' clocks,
 * r the error of rate, S how long the holder's clock stops, d the least latency. Nothing is run.
 */

const MILLION = 1_000_000;

/** Whether the steps and losses of the nodes that are struck are enough for a rival. */
function matters({ policy, nodes, votes, struck }: Stress): boolean {
  return struck >= faultyForExclusion(nodes, quorumOf(policy, nodes), votes);
}

/** How far the holder's clock falls back: by a step, in true time while it is stopped. */
function fallsBack({ policy, clientStepUs, suspendUs, vmUs }: Stress): { stepUs: number; stoppedUs: number } {
  const { clock } = policy.habits;
  return {
    stepUs: clock === 'wall' ? clientStepUs : 0,
    stoppedUs: (clock === 'monotonic' ? suspendUs : 0) + vmUs,
  };
}

/** What time stamps that are cut add to a validity that is counted from the last of them. */
function cutUs({ policy }: Stress): number {
  return countsCutStamps(policy) ? (deviationNumber(policy, 'stamps-us') ?? 1) - 1 : 0;
}

/** A deadline that is looked at through cut time stamps is over at the first of them that is not before it. */
function stampedUs({ policy }: Stress, us: number): number {
  const stampUs = deviationNumber(policy, 'deadline-stamps-us') ?? 1;
  return stampUs === 1 ? us : Math.ceil(us / stampUs) * stampUs;
}

/** When the first key is gone that a rival needs, counted from the holder's call, and its reply on top. */
function freeUs(stress: Stress): number {
  const { ttlMs, nodeStepUs, driftPpm, latencyUs, grain = EXACT } = stress;
  const stepUs = matters(stress) ? nodeStepUs : 0;
  const lifeUs = 1000 * ttlMs - shortfallUs(grain);
  return 2 * latencyUs + Math.max(0, lifeUs - stepUs) / (1 + driftPpm / MILLION);
}

/** D ≥ TTL + q + J_c − (1 − r) · (2d + (TTL − J_n) / (1 + r) − S). */
export function computedAllowanceUs(stress: Stress): number {
  const { stepUs, stoppedUs } = fallsBack(stress);
  const slow = 1 - stress.driftPpm / MILLION;
  return stampedUs(stress, 1000 * stress.ttlMs + cutUs(stress) + stepUs - slow * (freeUs(stress) - stoppedUs));
}

/** When the holder stops to believe, from its call, in true time. */
function beliefEndsUs(stress: Stress): number {
  const ttlUs = 1000 * stress.ttlMs;
  const { stepUs, stoppedUs } = fallsBack(stress);
  const claimUs = stampedUs(stress, ttlUs - driftAllowanceUs(stress.policy, ttlUs)) + cutUs(stress) + stepUs;
  return claimUs / (1 - stress.driftPpm / MILLION) + stoppedUs;
}

/** R ≥ (1 + r) · (end of the belief − 2d), and on top the step of the clock that counts it. */
export function computedDelayUs(stress: Stress, by: RestartClock): number {
  if (!matters(stress)) return 0;
  const awayUs = beliefEndsUs(stress) - 2 * stress.latencyUs;
  if (by === 'true-time') return awayUs;
  return countedAbsenceUs(awayUs, stress.driftPpm / MILLION, by === 'timer' ? 0 : stress.nodeStepUs);
}

/** m ≥ N − q + k + 1 votes, and a quorum at least. */
export function computedVotes(nodes: number, quorum: number, forgetting: number): number {
  return Math.max(quorum, nodes - quorum + forgetting + 1);
}

/** M > (pause and way) · (1 + r): a claim does not include its last instant. */
export function computedGuardUs({ driftPpm }: Stress, pauseUs: number): number {
  return (pauseUs + 1) * (1 + driftPpm / MILLION);
}

/**
 * TTL − D(TTL) > time to the lock, with its silent nodes, + work + (pause and way of the write) · (1 + r). Where nodes have a
 * share of the TTL to answer, votes have to fit into that.
 */
export function computedTtlUs(stress: Stress, workUs: number, pauseUs: number): number {
  const { policy, nodes, ttlMs, silent = 0, latencyUs, driftPpm } = stress;
  const slowest = 1 + driftPpm / MILLION;
  const roundTripUs = 2 * latencyUs * slowest;
  const neededUs = workUs + (pauseUs + 1) * slowest;
  const answeredUs = (1000 * ttlMs * roundTripUs) / (timeoutShareUs(policy) ?? Number.POSITIVE_INFINITY);
  // What is constant and what is rounded do not depend on the TTL.
  let ttlUs = Math.max(neededUs, answeredUs);
  for (let i = 0; i < ROUNDS && ttlUs < LONGEST_US; i++) {
    const lastingMs = Math.ceil(ttlUs / 1000);
    const hadUs = acquiringUs(timedFor(policy, ttlMs, lastingMs), nodes, silent, roundTripUs);
    ttlUs = Math.max(answeredUs, neededUs + driftAllowanceUs(policy, 1000 * lastingMs) + hadUs);
  }
  return ttlUs < LONGEST_US ? ttlUs : Number.POSITIVE_INFINITY;
}

/** Each brings it nearer by the drift factor and the share of a time-out; more than enough for both of up to a half. */
const ROUNDS = 60;
