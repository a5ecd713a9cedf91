import {
  deviates,
  deviationNumber,
  type Policy,
  type PolicyChange,
  policyWith,
  quorumOf,
} from '../deviations/index.js';
import type { Crash, Fate, Fault } from '../scenarios/index.js';
import { type Attack, alone, attack, EXACT, type ExpiryModel, type Setting } from '../search/safety-map/adversary.js';
import { faultyForExclusion } from '../search/safety-map/computed.js';
import { observeRun } from '../search/safety-map/watch.js';
import { nodeName } from '../sim/index.js';

/** What a node does to the votes that it gave. */
export type Loss =
  /** It keeps them. */
  | { readonly kind: 'none' }
  /** It loses them while it runs: eviction, a failover, an operator. */
  | { readonly kind: 'forgets' }
  /** It stops, and serves again, without them, when `by` has counted `delayUs`. Default `disk`: none. */
  | { readonly kind: 'restarts'; readonly delayUs: number; readonly by: RestartClock; readonly disk?: LossyDisk };

/**
 * What a node that stops right after its vote does not have that vote on: nothing at all, the last dump, or an append-only file
 * whose next fsync has not begun as the power goes.
 */
export type LossyDisk = 'none' | 'dump' | 'everysec';

const SECOND_US = 1_000_000;

/** What is on a disk, at an instant at which it lacks the vote. */
const DISKS: Readonly<Record<LossyDisk, NonNullable<Setting['disk']>>> = {
  none: { persistence: 'none' },
  dump: { persistence: 'rdb' },
  everysec: {
    persistence: 'everysec',
    fsync: { firstUs: SECOND_US / 2, everyUs: SECOND_US, takesUs: 0 },
  },
};

/**
 * What counts a restart delay: true time; a timer that runs fast like every clock but cannot be set (systemd, `sleep`); or
 * the time of day of the node.
 */
export type RestartClock = 'true-time' | 'timer' | 'time-of-day';

/** A lock, and the worst that is expected around it, all at once. Durations are µs. */
export interface Stress {
  readonly policy: Policy;
  readonly ttlMs: number;
  readonly nodes: number;
  /** Votes behind the holder's lock. */
  readonly votes: number;
  /** Voters whose clock is set, and that lose their votes. */
  readonly struck: number;
  /** Error of rate, ppm: the holder's clock slow, those of its voters fast. */
  readonly driftPpm: number;
  /** What every message takes, one way. */
  readonly latencyUs: number;
  /** By how much the clocks of struck voters are set forward. */
  readonly nodeStepUs: number;
  /** By how much the holder's wall clock is set back. */
  readonly clientStepUs: number;
  /** How long the holder's machine sleeps, and its virtual machine is paused. */
  readonly suspendUs: number;
  readonly vmUs: number;
  readonly loss: Loss;
  /** Nodes that do not answer as the holder asks for a lock to work with. Default 0. */
  readonly silent?: number;
  /** How late answers may be. Default 0. */
  readonly lateUs?: number;
  /** How nodes expire keys. Default: exactly at the TTL, the least that Redis comes near to. */
  readonly grain?: ExpiryModel;
}

const MILLION = 1_000_000;
/** Of libraries without a time-out of their own: that of the client below them. */
const CLIENT_TIMEOUT_US = 50_000;

/**
 * The run of a holder under all that a stress allows, and a rival that strikes at the first instant at which a quorum is
 * free. Where these two never believe at once, no two clients do. Of an adversary that may stop a node and may leave it
 * alone, it is the choice that succeeds, or else the first.
 */
export function attackOf(stress: Stress): Attack {
  const struck = attack(settingOf(stress));
  if (struck.overlap || stress.loss.kind === 'none') return struck;
  const spared = attack(settingOf({ ...stress, loss: { kind: 'none' } }));
  return spared.overlap ? spared : struck;
}

/** Whether two clients hold the lock at once. */
export function isShared(stress: Stress): boolean {
  return attackOf(stress).overlap;
}

function settingOf(stress: Stress): Setting {
  const { ttlMs, latencyUs, nodes, votes, driftPpm } = stress;
  const calm: Setting = {
    ttlMs,
    delayUs: latencyUs,
    nodes,
    grain: stress.grain ?? EXACT,
    policy: playedPolicy(stress),
    clientPpm: -driftPpm,
    nodePpm: driftPpm,
    drifting: votes,
    fates: lateAnswers(stress),
  };
  const disk = stress.loss.kind === 'restarts' ? { disk: DISKS[stress.loss.disk ?? 'none'] } : {};
  const voting = { ...calm, faults: refusals(stress) };
  return { ...voting, ...disk, faults: [...voting.faults, ...nodeFaults(stress), ...clientFaults(stress, voting)] };
}

/** Nodes beyond the votes answer with an error: a client that waited for them would have less of its lock. */
function refusals(stress: Stress): Fault[] {
  const { nodes, votes } = stress;
  return Array.from({ length: nodes - votes }, (_, i) => ({
    kind: 'error-replies',
    atUs: votedAtUs(stress, votes + i),
    node: nodeName(votes + i),
    operations: ['acquire'],
    forUs: 1,
  }));
}

/** The client with an end to its waiting for nodes that are down. */
function playedPolicy({ policy, latencyUs }: Stress): PolicyChange {
  // Whatever is set, votes are waited for: they are what the attack is about.
  const nodeTimeoutUs = Math.max(policy.settings.nodeTimeoutUs ?? CLIENT_TIMEOUT_US, 3 * latencyUs);
  return onceOf(policyWith({ settings: { nodeTimeoutUs } }, policy));
}

/** The client with one try and no extension. */
export function onceOf({ settings, deviations, habits }: Policy): PolicyChange {
  const once = { tries: 1, autoExtendAtUs: null, autoExtendAtPpm: null, lockDelayMs: 0, fencing: false };
  return { settings: { ...settings, ...once }, deviations, habits };
}

/** When a node carries out the holder's SET: all at once, or one after the other. */
function votedAtUs({ policy, latencyUs }: Stress, node: number): number {
  return latencyUs * (deviates(policy, 'asks-in-turn') ? 2 * node + 1 : 1);
}

/**
 * The first voters are struck in the instant in which they have voted: nothing later is worse. No more of them than a rival
 * needs: as many as may be stay up.
 */
function nodeFaults(stress: Stress): Fault[] {
  const { policy, nodes, loss, nodeStepUs, driftPpm, struck, votes } = stress;
  const needed = faultyForExclusion(nodes, Math.ceil(quorumOf(policy, nodes)), votes);
  return Array.from({ length: Math.min(struck, needed) }, (_, i): Fault[] => {
    const node = nodeName(i);
    const voted = { atUs: votedAtUs(stress, i), edge: 'after' } as const;
    const faults: Fault[] = [];
    if (loss.kind === 'forgets') faults.push({ kind: 'data-loss', ...voted, node });
    if (loss.kind === 'restarts') faults.push({ kind: 'crash', ...voted, node, ...restartOf(loss, driftPpm) });
    if (nodeStepUs > 0) faults.push({ kind: 'clock-step', ...voted, process: node, byUs: nodeStepUs });
    return faults;
  }).flat();
}

function restartOf(
  { delayUs, by, disk }: Extract<Loss, { kind: 'restarts' }>,
  driftPpm: number,
): Pick<Crash, 'restartAfterUs' | 'restartBy' | 'power'> {
  const power = disk === 'everysec' ? ({ power: true } as const) : {};
  if (by === 'time-of-day') return { restartAfterUs: delayUs, restartBy: 'node-clock', ...power };
  // A fast timer is over before its time.
  const restartAfterUs = by === 'timer' ? Math.ceil((delayUs * MILLION) / (MILLION + driftPpm)) : delayUs;
  return { restartAfterUs, restartBy: 'true-time', ...power };
}

/** The holder's clock falls back in the instant in which it has the lock, as far as it reads one that can. */
function clientFaults(stress: Stress, calm: Setting): Fault[] {
  const { policy, clientStepUs, suspendUs, vmUs } = stress;
  const atUs = observeRun(alone(calm)).claims[0]?.atUs;
  if (atUs === undefined) return [];
  const then = { atUs, edge: 'after', process: 'c1' } as const;
  const { clock } = policy.habits;
  const faults: Fault[] = [];
  if (clock === 'wall' && clientStepUs > 0) faults.push({ kind: 'clock-step', ...then, byUs: -clientStepUs });
  if (clock === 'monotonic' && suspendUs > 0)
    faults.push({ kind: 'suspend', ...then, forUs: suspendUs, stops: 'monotonic' });
  // One machine does one thing at a time.
  const resumedUs = atUs + (faults.some(({ kind }) => kind === 'suspend') ? suspendUs : 0);
  if (vmUs > 0) faults.push({ kind: 'suspend', ...then, atUs: resumedUs, forUs: vmUs, stops: 'all' });
  return faults;
}

/**
 * Answers come late where that is worse: the holder counts from them, or cuts its time stamps and counts a validity from the
 * last of them, so that it gains most just before the next stamp.
 */
function lateAnswers({ policy, votes, driftPpm, latencyUs, lateUs = 0 }: Stress): Fate[] {
  const gains = countsCutStamps(policy) ? (deviationNumber(policy, 'stamps-us') ?? 1) - 1 : 0;
  const late = deviates(policy, 'deadline-whole-ttl', 'counts-from-reply') ? lateUs : gains;
  if (late === 0) return [];
  const delayUs = Math.ceil((late * MILLION) / (MILLION - driftPpm));
  const last = { operation: 'acquire', direction: 'reply', client: 'c1' } as const;
  return [{ ...last, node: `n${votes - 1}`, delayUs: Math.max(latencyUs, delayUs) }];
}

/** Whether a client counts a validity from the last of time stamps that are cut. */
export function countsCutStamps(policy: Policy): boolean {
  return deviates(policy, 'deadline-counted-after-us') && (deviationNumber(policy, 'stamps-us') ?? 1) > 1;
}

/** Votes of the holder that a rival finds it easiest to get past, and how many of its voters are struck. */
export function weakestVotes(policy: Policy, nodes: number, atOnce: number): { votes: number; struck: number } {
  const quorum = Math.ceil(quorumOf(policy, nodes));
  // A client that an error puts off, or that waits for its last answer, has all votes or none.
  const needsAll = deviates(policy, 'error-aborts', 'error-forfeits') || countsCutStamps(policy);
  const votes = needsAll ? nodes : Math.min(nodes, quorum);
  return { votes, struck: Math.min(atOnce, votes) };
}
