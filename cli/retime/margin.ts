import { policyOf } from '../../deviations/index.js';
import { judgeAsExpected } from '../../properties/expectation.js';
import type { Judgement } from '../../properties/judge.js';
import type { Expectation, Fate, Fault, LockPlan, Schedule } from '../../scenarios/index.js';
import { type RandomStream, RandomStreams } from '../../sim/index.js';
import { rescale, writtenInstants } from './rescale.js';
import { candidateScales, type TimeMap } from './time-map.js';

/** What a real machine adds to the times that are written down, at most. */
export interface Noise {
  /** How late a call, a fault or a timer is, µs. */
  readonly lateUs: number;
  /** One-way delays are drawn up to this, µs. */
  readonly delayUs: number;
  /** How long a server takes to start, µs. */
  readonly startUs: number;
  /** How far a clock that is set may be off, µs. */
  readonly clockUs: number;
}

/** What a busy machine has been seen to add to times. */
export const NOISE: Noise = Object.freeze<Noise>({
  lateUs: 20_000,
  delayUs: 12_000,
  startUs: 200_000,
  clockUs: 5_000,
});

const SAMPLES = 300;

/** A schedule at a pace at which its verdict stands whatever the noise. */
export interface Playable {
  readonly schedule: Schedule;
  readonly pace: TimeMap;
  /** Who claims, in order, if the noise does not change that; else `null`. */
  readonly claims: readonly string[] | null;
}

/** Why there is none: what the verdict becomes with noise, or at another pace. */
interface NotReplayable {
  readonly reason: string;
}

/** Finds the quickest pace at which a schedule gives what it should in spite of noise, by simulating samples of it. */
export function findReplayable(
  schedule: Schedule,
  expect: Expectation,
  noise: Noise = NOISE,
): Playable | NotReplayable {
  const wanted = essence(judgeAsExpected(schedule, expect));
  const ttlUs = (schedule.clients[0]?.locks[0]?.ttlMs ?? 10_000) * 1000;
  const reasons: string[] = [];
  for (const pace of candidateScales(ttlUs, writtenInstants(schedule))) {
    const paced = rescale(schedule, pace);
    const found = withstands(paced, expect, wanted, noise);
    if (!('reason' in found)) return { schedule: paced, pace, claims: found.claims };
    reasons.push(found.reason);
  }
  // The paces differ in what they blur; the last is the most faithful.
  return { reason: reasons.at(-1) ?? 'there is no pace to play it at' };
}

/**
 * Whether a schedule at its pace gives what it should in spite of this noise, and who claims then. Tells whether what a
 * machine was seen to add to times can explain a difference.
 */
export function standsIn(
  noise: Noise,
  { schedule }: Playable,
  expect: Expectation,
): { readonly claims: readonly string[] | null } | NotReplayable {
  return withstands(schedule, expect, essence(judgeAsExpected(schedule, expect)), noise);
}

function withstands(
  schedule: Schedule,
  expect: Expectation,
  wanted: string,
  noise: Noise,
): { readonly claims: readonly string[] | null } | NotReplayable {
  const stream = new RandomStreams('noise').stream(0, 0);
  let claims: string | null | undefined;
  for (let sample = 0; sample < SAMPLES; sample++) {
    // From a quiet machine to a busy one.
    const judgement = judgeAsExpected(disturbed(schedule, scaled(noise, sample / (SAMPLES - 1)), stream), expect);
    const found = essence(judgement);
    if (found !== wanted)
      return {
        reason: `with noise of up to ${noise.lateUs / 1000} ms its verdict is ${found} where it should be ${wanted}`,
      };
    const order = claimants(judgement).join(' ');
    claims = claims === undefined || claims === order ? order : null;
  }
  return { claims: claims === null || claims === undefined ? null : claims.split(' ').filter(Boolean) };
}

function scaled({ lateUs, delayUs, startUs, clockUs }: Noise, by: number): Noise {
  const part = (us: number): number => Math.ceil(us * by);
  return { lateUs: part(lateUs), delayUs: part(delayUs), startUs: part(startUs), clockUs: part(clockUs) };
}

/** The verdict with the properties behind it. */
function essence({ verdict, violations }: Judgement): string {
  const properties = violations.map(({ property }) => property).filter((property) => property !== 'quorum-backed');
  return verdict === 'violated' ? `violated (${[...new Set(properties)].sort().join(', ')})` : verdict;
}

function claimants({ run }: Judgement): string[] {
  return run.trace.filter(({ kind }) => kind === 'claim').map(({ process }) => process);
}

/** A schedule as a real machine might play it. */
function disturbed(schedule: Schedule, noise: Noise, stream: RandomStream): Schedule {
  const late = (us: number): number => us + stream.below(noise.lateUs + 1);
  const delay = (us: number): number => us + stream.below(noise.delayUs + 1);
  const { cluster } = schedule;
  const distances = schedule.clients.flatMap(({ id: client }) =>
    Array.from({ length: cluster.nodes }, (_, i) => {
      const node = `n${i}`;
      const own = cluster.distances.find((it) => it.client === client && it.node === node);
      return { client, node, delayUs: own === undefined ? 200 + delay(cluster.delayUs - 1000) : delay(own.delayUs) };
    }),
  );
  const plan = (lock: LockPlan): LockPlan => ({
    ...lock,
    atUs: late(lock.atUs),
    holdUs: lock.holdUs === null ? null : late(lock.holdUs),
    extensions: lock.extensions.map((it) => ({ ...it, afterUs: late(it.afterUs) })),
    writes: lock.writes.map((it) => {
      const checkAfterUs = late(it.checkAfterUs);
      const sendAfterUs = Math.max(checkAfterUs, late(it.sendAfterUs));
      return { ...it, checkAfterUs, sendAfterUs, delayUs: late(it.delayUs) };
    }),
  });
  const { nodeTimeoutUs, retryDelayUs } = policyOf(schedule.policy).settings;
  // Timers of clients are late, too.
  const timers = {
    nodeTimeoutUs: nodeTimeoutUs === null ? null : late(nodeTimeoutUs),
    retryDelayUs: late(retryDelayUs),
  };
  return {
    ...schedule,
    policy: { ...schedule.policy, settings: { ...schedule.policy.settings, ...timers } },
    cluster: { ...cluster, distances },
    clients: schedule.clients.map((client) => ({ ...client, locks: client.locks.map(plan) })),
    faults: schedule.faults.map((fault) => disturbedFault(fault, noise, stream)),
    fates: schedule.fates.map(
      ({ delayUs, resendAfterUs, ...fate }): Fate => ({
        ...fate,
        ...(delayUs === undefined ? {} : { delayUs: delay(delayUs) }),
        ...(resendAfterUs === undefined ? {} : { resendAfterUs: late(resendAfterUs) }),
      }),
    ),
  };
}

function disturbedFault(fault: Fault, noise: Noise, stream: RandomStream): Fault {
  const late = (us: number): number => us + stream.below(noise.lateUs + 1);
  const atUs = late(fault.atUs);
  switch (fault.kind) {
    case 'crash':
      return {
        ...fault,
        atUs,
        restartAfterUs: fault.restartAfterUs === null ? null : fault.restartAfterUs + 1 + stream.below(noise.startUs),
      };
    case 'clock-step':
      return { ...fault, atUs, byUs: fault.byUs + stream.between(-noise.clockUs, noise.clockUs) };
    default:
      return 'forUs' in fault ? { ...fault, atUs, forUs: late(fault.forUs) } : { ...fault, atUs };
  }
}
