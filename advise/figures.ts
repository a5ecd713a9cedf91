import { driftAllowanceUs, type Policy, policyPlus, quorumOf } from '../deviations/index.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { least } from '../search/safety-map/bisect.js';
import { attackOf, isShared, type Loss, type LossyDisk, type RestartClock, type Stress } from './attacks.js';
import { computedAllowanceUs, computedDelayUs, computedGuardUs, computedTtlUs, computedVotes } from './computed.js';
import { timedFor } from './libraries.js';
import type { Unknown } from './unknowns.js';
import { isHad, isLate, type Way, type Write, wholeUs, writeSchedule } from './writes.js';

/** A run that shows a verdict: it can be written down and replayed. */
export interface Witness {
  /** Of what is asked for, in its unit. */
  readonly value: number;
  readonly schedule: Schedule;
}

/** The least value that is safe, found by bisection with runs of the engine, with a run on each side of it. */
export interface Figure {
  readonly of: Unknown;
  /** µs; whole votes; of a TTL, µs in steps of a millisecond. */
  readonly least: number;
  /** The least difference that is looked at: what follows is violated so much below. */
  readonly quantum: number;
  /** The same by its closed formula; a least value is a whole one that is not below it. */
  readonly computed: number;
  readonly safe: Witness;
  /** `null` where nothing below is unsafe, because the least value is the least there is. */
  readonly violated: Witness | null;
  readonly breaks: PropertyId;
}

/** Figures that are the mathematics', to the rounding of clocks that count whole microseconds. */
export function agrees({ least: found, computed, quantum }: Figure, toleranceUs: number = ROUNDED_US): boolean {
  return Math.abs(found - Math.max(0, computed)) <= Math.max(quantum, toleranceUs) + ROUNDING;
}

/** Clocks show whole microseconds: a drift, a step and a stop at once may each cost one. */
const ROUNDED_US = 3;
const ROUNDING = 1e-6;

/**
 * The least drift allowance D with which nothing that a stress allows breaks the lock, µs; `null` where none does, however
 * great. What the client allows for now is left out of account.
 */
export function leastAllowance(stress: Stress): Figure | null {
  const withAllowance = (us: number): Stress => ({ ...stress, policy: allowing(stress.policy, us) });
  // With more there is no lock at all, which is safe and of no use.
  const mostUs = Math.floor(MOST_SHARE * 1000 * stress.ttlMs);
  return bisected({
    of: 'allowance',
    most: mostUs,
    computed: computedAllowanceUs(stress),
    breaks: 'mutual-exclusion',
    isUnsafe: (us) => isShared(withAllowance(us)),
    run: (us) => attackOf(withAllowance(us)).schedule,
  });
}

/** An allowance of more than this share of the TTL is none that anybody wants. */
const MOST_SHARE = 0.9;

/** The client with exactly this allowance, whatever the TTL. */
export function allowing(policy: Policy, allowanceUs: number): Policy {
  return policyPlus(
    { settings: { driftPpm: 0, driftUs: allowanceUs }, deviations: ['drift-unrounded'] },
    { ...policy, deviations: policy.deviations.filter((it) => it !== 'drift-added' && it !== 'drift-constant-added') },
  );
}

/** The least delay after which a voter that has stopped may serve again, empty, as counted `by` its clock, µs. */
export function leastRestartDelay(stress: Stress, by: RestartClock, disk: LossyDisk = 'none'): Figure | null {
  const away = (delayUs: number): Stress => ({
    ...stress,
    loss: { kind: 'restarts', delayUs, by, disk } satisfies Loss,
  });
  return bisected({
    of: 'restart-delay',
    most: 4000 * stress.ttlMs + stress.suspendUs + stress.vmUs + 2 * (stress.nodeStepUs + stress.clientStepUs),
    computed: computedDelayUs(stress, by),
    breaks: 'mutual-exclusion',
    isUnsafe: (us) => isShared(away(us)),
    run: (us) => attackOf(away(us)).schedule,
  });
}

/** The least number of votes with which as many voters as are struck may lose theirs. */
export function leastVotes(stress: Stress): Figure | null {
  const quorum = Math.ceil(quorumOf(stress.policy, stress.nodes));
  const forgetting = (votes: number): Stress => ({
    ...stress,
    votes,
    struck: Math.min(stress.struck, votes),
    loss: { kind: 'forgets' },
  });
  if (isShared(forgetting(stress.nodes))) return null;
  return bisected({
    of: 'votes',
    from: quorum,
    most: stress.nodes,
    computed: computedVotes(stress.nodes, quorum, stress.struck),
    breaks: 'mutual-exclusion',
    isUnsafe: (votes) => isShared(forgetting(votes)),
    run: (votes) => attackOf(forgetting(votes)).schedule,
  });
}

/** The least validity that a write has to ask for so that it arrives in time, µs; `null` where the lock has none to give. */
export function leastGuard(stress: Stress, way: Way): Figure | null {
  const guarded = (guardUs: number): Write => ({ kind: 'guarded', guardUs, way });
  const mostUs = 1000 * stress.ttlMs - driftAllowanceUs(stress.policy, 1000 * stress.ttlMs) - 1;
  if (writeSchedule(stress, guarded(mostUs)) === null && computedGuardUs(stress, wholeUs(way)) > mostUs) return null;
  return bisected({
    of: 'guard',
    most: mostUs,
    computed: computedGuardUs(stress, wholeUs(way)),
    breaks: 'no-stale-write',
    isUnsafe: (us) => isLate(writeSchedule(stress, guarded(us))),
    run: (us) => writeSchedule(stress, guarded(us)),
  });
}

/**
 * The least TTL, µs in whole ms, with which the lock can be had while as many nodes are silent as the stress says, and a write
 * at the end of the work is in time without being checked; `null` where no TTL of up to a day is enough.
 */
export function leastTtl(stress: Stress, workUs: number, way: Way): Figure | null {
  const write: Write = { kind: 'unguarded', workUs, way };
  const lasting = (us: number): Stress => {
    const ttlMs = Math.max(1, Math.round(us / MS));
    return { ...stress, ttlMs, policy: timedFor(stress.policy, stress.ttlMs, ttlMs) };
  };
  return bisected({
    of: 'ttl',
    quantum: MS,
    from: MS,
    most: DAY_US,
    computed: computedTtlUs(stress, workUs, wholeUs(way)),
    breaks: 'no-stale-write',
    isUnsafe: (us) => !isHad(lasting(us)) || isLate(writeSchedule(lasting(us), write)),
    run: (us) => writeSchedule(lasting(us), write),
  });
}

const MS = 1000;
const DAY_US = 86_400_000_000;

interface Question {
  readonly of: Unknown;
  /** Default 1. */
  readonly quantum?: number;
  readonly from?: number;
  readonly most: number;
  readonly computed: number;
  readonly breaks: PropertyId;
  readonly isUnsafe: (value: number) => boolean;
  readonly run: (value: number) => Schedule | null;
}

function bisected(question: Question): Figure | null {
  const { of, quantum = 1, from = 0, most, computed, breaks, isUnsafe, run } = question;
  if (isUnsafe(most)) return null;
  const isSafe = (steps: number): boolean => !isUnsafe(steps * quantum);
  const found = isUnsafe(from) ? quantum * least(from / quantum, Math.floor(most / quantum), isSafe) : from;
  const witness = (value: number): Witness | null => {
    const schedule = run(value);
    return schedule === null ? null : { value, schedule };
  };
  const safe = witness(found);
  if (safe === null) return null;
  const violated = found > from ? witness(found - quantum) : null;
  return { of, least: found, quantum, computed, safe, violated, breaks };
}
