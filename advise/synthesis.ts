import { type Policy, policyWith } from '../deviations/index.js';
import { type Stress, weakestVotes } from './attacks.js';
import {
  allowing,
  type Figure,
  leastAllowance,
  leastGuard,
  leastRestartDelay,
  leastTtl,
  leastVotes,
} from './figures.js';
import { driftFactorPpm, libraryOf, timedFor, withItsTimeout } from './libraries.js';
import { lossesOf, lossyDiskOf, restartClockOf, restartLoss, stressOf, wayOf, workStressOf } from './stress-of.js';
import type { System } from './system.js';
import type { Unknown } from './unknowns.js';

/** The least value of each unknown, where it has one. What was not asked for is as the system has it. */
export type Solution = Readonly<Partial<Record<Unknown, Figure | null>>>;

/**
 * The least settings with which a system keeps what its lock promises, for any subset of the unknowns. A TTL comes with the
 * allowance that it needs, since each depends on the other; a restart delay and the rest take both as they are then.
 */
export function synthesize(system: System, unknowns: readonly Unknown[]): Solution {
  const asked = new Set(unknowns);
  const { ttl, allowance, settled } = settle(system, asked);
  return {
    ...(asked.has('ttl') ? { ttl } : {}),
    ...(asked.has('allowance') ? { allowance } : {}),
    ...(asked.has('restart-delay') ? { 'restart-delay': restartDelay(settled) } : {}),
    ...(asked.has('votes') ? { votes: votes(settled) } : {}),
    ...(asked.has('guard')
      ? { guard: settled.work.writes ? leastGuard(workStressOf(settled), wayOf(settled)) : null }
      : {}),
  };
}

interface Settled {
  readonly ttl: Figure | null;
  readonly allowance: Figure | null;
  /** The system with both of them in place, as far as they were asked for. */
  readonly settled: System;
}

/** Rounds in which a TTL and its allowance find each other; each moves less than the one before. */
const ROUNDS = 8;

function settle(system: System, asked: ReadonlySet<Unknown>): Settled {
  let settled = system;
  let ttl: Figure | null = null;
  let allowance: Figure | null = null;
  for (let round = 0; round < ROUNDS; round++) {
    const before = settled.client;
    if (asked.has('allowance')) {
      allowance = leastAllowance(stressOf(settled));
      if (allowance !== null) settled = withPolicy(settled, allowing(system.client.policy, allowance.least));
    }
    if (asked.has('ttl')) {
      ttl = leastTtl(workStressOf(settled), settled.work.longestUs, wayOf(settled));
      // A lock that is long enough stays as it is.
      if (ttl !== null && ttl.least > 1000 * settled.client.ttlMs) settled = withTtl(settled, ttl.least / 1000);
    }
    if (settled.client.ttlMs === before.ttlMs) break;
  }
  return { ttl, allowance, settled };
}

/** The delay of the nodes that come back without their votes, or would if they restarted by themselves. */
function restartDelay(system: System): Figure | null {
  const node = system.nodes.find((it) => restartLoss(it) !== null) ?? system.nodes[0];
  if (node === undefined) return null;
  const losing = system.nodes.filter((it) => restartLoss(it) !== null).length;
  const stress = stressOf(system);
  const struck = losing === 0 ? stress.struck : Math.min(stress.struck, losing);
  const disk = restartLoss(node) === null ? 'none' : lossyDiskOf(node);
  return leastRestartDelay({ ...stress, struck }, restartClockOf(node), disk);
}

/** Votes that outlive as many nodes with data loss as there may be; clocks have their allowance, so that these alone decide. */
function votes(system: System): Figure | null {
  const losing = system.nodes.filter((node) => lossesOf(node).length > 0).length;
  const stress = stressOf(system);
  const forgetting = Math.min(system.atOnce, losing === 0 ? system.nodes.length : losing);
  return leastVotes({ ...stress, struck: forgetting });
}

/** The system with a client of this policy. */
export function withPolicy(system: System, policy: Policy): System {
  return { ...system, client: { ...system.client, policy } };
}

/** The system with locks of this TTL. */
export function withTtl(system: System, ttlMs: number): System {
  const { client } = system;
  return { ...system, client: { ...client, ttlMs, policy: timedFor(client.policy, client.ttlMs, ttlMs) } };
}

/** The system with the least factor of its client that gives this allowance; `null` where the client has no such option. */
export function withAllowance(system: System, allowanceUs: number): System | null {
  const { policy, ttlMs } = system.client;
  const driftPpm = driftFactorPpm(libraryOf(policy), ttlMs, allowanceUs);
  return driftPpm === null ? null : withDrift(system, driftPpm);
}

/** The system with a client of this drift factor. */
export function withDrift(system: System, driftPpm: number): System {
  const { policy, ttlMs } = system.client;
  const set = policyWith({ settings: { driftPpm } }, policy);
  return withPolicy(system, libraryOf(policy).timeout === 'allowance' ? withItsTimeout(set, ttlMs) : set);
}

/** One point of a trade-off: how much is tolerated, and what is left of the lock for it. */
export interface Tradeoff {
  readonly driftPpm: number;
  readonly allowanceUs: number;
  /** TTL − D: what a holder has if its votes take no time. */
  readonly validityUs: number;
  readonly restartDelayUs: number | null;
}

/** Shares of the expected error of rate, %. */
const SHARES = [0, 50, 100, 200, 400];

/** What tolerance costs: for other errors of rate, the allowance, the validity that is left and the restart delay. */
export function tradeoffs(system: System): Tradeoff[] {
  return SHARES.flatMap((share) => {
    const driftPpm = Math.round((system.clocks.driftPpm * share) / 100);
    const worse: System = { ...system, clocks: { ...system.clocks, driftPpm } };
    const { allowance, 'restart-delay': delay } = synthesize(worse, ['allowance', 'restart-delay']);
    if (!allowance) return [];
    const allowanceUs = allowance.least;
    const validityUs = 1000 * system.client.ttlMs - allowanceUs;
    return [{ driftPpm, allowanceUs, validityUs, restartDelayUs: delay?.least ?? null }];
  });
}

/** One point of the other trade-off: votes to wait for, nodes that may forget, nodes that may be down. */
export interface VoteTradeoff {
  readonly votes: number;
  readonly mayForget: number;
  readonly mayBeDown: number;
}

/** What votes beyond the quorum buy, and what they cost, measured vote by vote. */
export function voteTradeoffs(system: System): VoteTradeoff[] {
  const nodes = system.nodes.length;
  const { policy } = system.client;
  const stress: Stress = { ...stressOf(system), nodeStepUs: 0, clientStepUs: 0, suspendUs: 0, vmUs: 0, driftPpm: 0 };
  const { votes: quorum } = weakestVotes(policy, nodes, nodes);
  const needed = Array.from(
    { length: nodes + 1 },
    (_, struck) => leastVotes({ ...stress, struck })?.least ?? nodes + 1,
  );
  return Array.from({ length: nodes - quorum + 1 }, (_, i) => {
    const votes = quorum + i;
    const mayForget = needed.filter((it) => it <= votes).length - 1;
    return { votes, mayForget, mayBeDown: nodes - votes };
  });
}
