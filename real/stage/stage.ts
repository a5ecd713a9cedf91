import { setTimeout as sleep } from 'node:timers/promises';
import { type Policy, PROFILES, quorumOf, REFERENCE } from '../../deviations/index.js';
import type { Schedule } from '../../scenarios/index.js';
import { longestTtlUs } from '../../scenarios/ttls.js';
import { findFaketime, type Persistence, provision } from '../provisioner/index.js';
import { Actor } from './actor.js';
import { Clockwork } from './clockwork.js';
import type { Observation, Waiting } from './observation.js';
import { Script } from './script.js';
import { Troupe } from './troupe.js';
import { Watcher } from './watcher.js';
import { Way } from './way.js';

const MS = 1000;
const LOOK_MS = 20;
/** What is still to be seen once everybody is done: late messages, a probe. */
const AFTERMATH_MS = 150;

/**
 * Why a schedule cannot be played on real nodes at all, in one sentence; `null` if it can.
 *
 * @param clocks - Whether nodes can have clocks of their own.
 */
export function unplayableBecause(schedule: Schedule, clocks: boolean = findFaketime() !== undefined): string | null {
  const { cluster, faults, clients } = schedule;
  const isClient = (name: string): boolean => clients.some(({ id }) => id === name);
  const clocked = [
    ...cluster.clocks.map(({ process }) => process),
    ...faults.flatMap((fault) => (fault.kind === 'clock-step' || fault.kind === 'clock-rate' ? [fault.process] : [])),
  ];
  if (cluster.replicaLagUs !== null || faults.some(({ kind }) => kind === 'failover'))
    return 'own nodes have no replicas to fail over to';
  if (faults.some(({ kind }) => kind === 'suspend')) return 'a process cannot suspend the machine that it runs on';
  if (clients.some(({ timing }) => timing !== undefined)) return 'its clients all tell the time in the same way';
  if (clocked.some(isClient)) return 'the clients share the monotonic clock of the machine, which nobody can set';
  if (schedule.policy.with.fencing !== undefined && schedule.policy.with.fencing !== 'none')
    return 'its clients play without fencing counters';
  if (schedule.resource !== undefined && schedule.resource !== 'none')
    return 'the resource that it writes to looks at nothing';
  if (cluster.scripts === 'by-hash') return 'its clients send scripts by their text';
  if (faults.some((fault) => fault.kind === 'client-crash' && fault.restartAfterUs !== undefined))
    return 'its clients, once dead, do not begin anew';
  if (faults.some((fault) => fault.kind === 'pause' && fault.first === 'timers'))
    return 'whether timers or answers come first after a pause is for the event loop to say';
  if (clocked.length > 0 && !clocks) return 'the clock of a node can be set only where libfaketime is installed';
  if (cluster.persistence === 'always' && cluster.answers === 'executed')
    return 'redis-server answers when a write is on disk, not before';
  if (cluster.expiry === 'at') return 'Redis removes a key after its time, never at it';
  if (cluster.resolutionUs !== 1000) return 'Redis reads its clock in whole milliseconds';
  const { fsync } = cluster;
  const inFsync = (atUs: number): boolean =>
    fsync !== undefined && atUs >= fsync.firstUs && (atUs - fsync.firstUs) % fsync.everyUs < fsync.takesUs;
  const dying = faults.some((fault) => fault.kind === 'crash' && !fault.power && inFsync(fault.atUs));
  if (dying && cluster.persistence === 'everysec') return 'when redis-server writes to its disk is not ours to say';
  return null;
}

/** How a schedule is played on real nodes. */
export interface PlayOptions {
  /** Ends the run early. */
  readonly signal?: AbortSignal;
}

/**
 * Plays a schedule on real nodes, own server processes: its clients run the lock of `core` under its policy, its messages
 * go through proxies that give each of them its fate, and its faults strike the processes. Times are taken as they are
 * written, so they should leave room for what a machine adds to them.
 *
 * @throws ProvisionError if there are no own server processes to be had, or a fault cannot be carried out.
 */
export async function playOnRedis(schedule: Schedule, { signal }: PlayOptions = {}): Promise<Observation> {
  const policy: Policy = { ...(PROFILES[schedule.policy.profile] ?? REFERENCE), ...schedule.policy.with };
  const { cluster } = schedule;
  const persistence: Persistence = cluster.persistence;
  const clocks =
    cluster.clocks.length > 0 || schedule.faults.some(({ kind }) => kind === 'clock-step' || kind === 'clock-rate');
  await using provided = await provision({
    nodes: cluster.nodes,
    sources: ['processes', 'package'],
    persistence,
    clocks,
  });
  const ways = await Promise.all(
    schedule.clients.map(({ id }) =>
      Promise.all(provided.nodes.map((node) => Way.open(id, node.name, node.url, schedule))),
    ),
  );
  try {
    const clockwork = new Clockwork();
    const script = new Script(clockwork);
    const actors = schedule.clients.map((plan, i) => new Actor(plan, policy, ways[i] ?? [], clockwork, script));
    const troupe = new Troupe(schedule, provided, actors, clockwork);
    const watcher = new Watcher(troupe.watched, actors, clockwork, {
      quorum: Math.min(...schedule.clients.map(({ nodes }) => quorumOf(policy, nodes?.length ?? cluster.nodes))),
      graceUs: policy.nodeTimeoutUs ?? REFERENCE.nodeTimeoutUs ?? 0,
    });
    await troupe.prepare();
    clockwork.start();
    troupe.begin();
    watcher.begin();
    for (const actor of actors) actor.begin();
    while (!isOver(schedule, clockwork, actors, troupe) && !signal?.aborted) await sleep(LOOK_MS);
    if (!signal?.aborted) await sleep(AFTERMATH_MS);
    clockwork.stop();
    watcher.end();
    if (troupe.failure !== undefined) throw troupe.failure;
    for (const actor of actors) actor.dismiss();
    const endUs = clockwork.nowUs();
    return {
      history: script.history,
      faults: troupe.done,
      claims: script.claims,
      down: watcher.down,
      blocked: watcher.blocked,
      unsupported: [...watcher.unsupported],
      waiting: actors.flatMap((actor): Waiting[] =>
        actor.waiting.map(({ plan, sinceUs }) => ({
          client: actor.plan.id,
          resources: plan.resources,
          sinceUs,
        })),
      ),
      patienceUs: patienceOf(schedule, policy),
      endUs,
      lateness: {
        eventUs: clockwork.latestUs,
        answerUs: watcher.slowestUs,
        startUs: troupe.slowestStartUs,
      },
      nodes: provided.description,
    };
  } finally {
    await Promise.all(ways.flat().map((way) => way.close()));
  }
}

/** Whether nothing can happen any more, or the time is up. */
function isOver(schedule: Schedule, clockwork: Clockwork, actors: readonly Actor[], troupe: Troupe): boolean {
  if (troupe.failure !== undefined || clockwork.nowUs() >= schedule.untilUs) return true;
  return troupe.open === 0 && actors.every((actor) => actor.done);
}

/** The longest that somebody can have to wait for a free lock: the life of a key, a pause between two attempts, time-outs. */
function patienceOf(schedule: Schedule, policy: Policy): number {
  const { retryDelayUs, retryJitterUs, nodeTimeoutUs } = policy;
  return longestTtlUs(schedule) + MS + retryDelayUs + retryJitterUs + 2 * (nodeTimeoutUs ?? 0);
}
