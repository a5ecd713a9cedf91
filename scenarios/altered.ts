import { LONGEST_US, MIDDLE_JITTER_PPM } from '../core/index.js';
import {
  choiceOf,
  DEVIATIONS,
  deadlineOf,
  deviates,
  type Habits,
  hasFencingTokens,
  type PolicyChange,
  parseDeviation,
  policyOf,
  policyPlus,
  policyWith,
  releasesInTurn,
  withDeadline,
} from '../deviations/index.js';

import type { ClientPlan, Cluster, Fault, LockPlan, ProcessName, ResourceGuard, Schedule } from './schedule.js';

/*
 * Copies of a schedule with one thing altered throughout; what mitigations are made of.
 */

/** What survives a crash. */
export function withPersistence(schedule: Schedule, persistence: Cluster['persistence']): Schedule {
  return { ...schedule, cluster: { ...schedule.cluster, persistence } };
}

/** Whether connections keep the order of messages. */
export function withLink(schedule: Schedule, link: Cluster['link']): Schedule {
  return { ...schedule, cluster: { ...schedule.cluster, link } };
}

/** When nodes answer; `null` for when they do by themselves. Where there are no replicas, none can be waited for. */
export function withAnswers(schedule: Schedule, answers: 'replicated' | 'durable' | null): Schedule {
  const { answers: _answers, ...cluster } = schedule.cluster;
  const possible = answers !== null && (answers !== 'replicated' || cluster.replicaLagUs !== null);
  return { ...schedule, cluster: possible ? { ...cluster, answers } : cluster };
}

/** Whether commands that are scripts go by their text or by its hash. */
export function withScripts(schedule: Schedule, scripts: NonNullable<Cluster['scripts']>): Schedule {
  return { ...schedule, cluster: { ...schedule.cluster, scripts } };
}

/** The clock that all clients read, whatever one has for itself. */
export function withClock(schedule: Schedule, clock: Habits['clock']): Schedule {
  return withPolicy(
    withOwnTiming(schedule, (own) => own !== 'clock'),
    { habits: { clock } },
  );
}

/** How all clients are told of the deadline, whatever one has for itself. */
export function withDeadlines(schedule: Schedule, kind: 'absolute' | 'relative'): Schedule {
  const policy = policyOf(schedule.policy);
  const deviations = withDeadline(policy, deadlineOf(policy, kind));
  return {
    ...withOwnTiming(schedule, (own) => own !== 'deadline'),
    policy: choiceOf(policyWith({ deviations }, policy)),
  };
}

/** Leaves out what of a client's own timing is not to be kept. */
export function withOwnTiming(schedule: Schedule, keeps: (name: string) => boolean): Schedule {
  if (schedule.clients.every(({ timing }) => timing === undefined)) return schedule;
  const clients = schedule.clients.map(({ locks, timing = {}, ...rest }): ClientPlan => {
    const kept = Object.entries(timing).filter(([name]) => keeps(name));
    return { ...rest, ...(kept.length === 0 ? {} : { timing: Object.fromEntries(kept) }), locks };
  });
  return { ...schedule, clients };
}

/** Some settings and habits of the policy. */
export function withPolicy(schedule: Schedule, { settings, habits }: Omit<PolicyChange, 'deviations'>): Schedule {
  const { policy } = schedule;
  return {
    ...schedule,
    policy: {
      ...policy,
      ...(settings === undefined ? {} : { settings: { ...policy.settings, ...settings } }),
      ...(habits === undefined ? {} : { habits: { ...policy.habits, ...habits } }),
    },
  };
}

/** A policy with some deviations in place of others, which are named without their numbers. */
export function withDeviations(schedule: Schedule, others: readonly string[], own: readonly string[]): Schedule {
  const policy = policyOf(schedule.policy);
  const deviations = policy.deviations.filter((it) => !others.includes(parseDeviation(it).name));
  return { ...schedule, policy: choiceOf(policyPlus({ deviations: own }, policyWith({ deviations }, policy))) };
}

/** When a round is decided: as soon as it can be, or when every node has answered or timed out, as are releases then. */
export function withSettle(schedule: Schedule, waits: boolean): Schedule {
  const policy = policyOf(schedule.policy);
  const others = Object.keys(DEVIATIONS).filter((name) => DEVIATIONS[name]?.rule === 'settle');
  const isWhole = waits || releasesInTurn(policy);
  const cleanUps = deviates(policy, 'awaits-clean-up', 'awaits-whole-clean-up')
    ? [isWhole ? 'awaits-whole-clean-up' : 'awaits-clean-up']
    : [];
  return withDeviations(
    schedule,
    [...others, 'release-awaits-all', 'awaits-clean-up', 'awaits-whole-clean-up'],
    [...(waits ? ['settles-with-all'] : []), ...(isWhole ? ['release-awaits-all'] : []), ...cleanUps],
  );
}

/** What resources look at before they take a write. One that looks at fencing tokens is given some. */
export function withResource(schedule: Schedule, resource: ResourceGuard): Schedule {
  const isGiven = looksAtTokens(resource) && !hasFencingTokens(policyOf(schedule.policy));
  return { ...(isGiven ? withFencing(schedule, true) : schedule), resource };
}

/** The deviations that make other fencing tokens. */
const FENCING = [
  'fence-without-token',
  'fence-from-votes',
  'fence-max',
  'fence-sum',
  'fence-min',
  'grants-count',
  'counter-plainly-written',
];

/** The fencing tokens of locks, as a quorum counts them. Without any, no resource looks at them. */
export function withFencing(schedule: Schedule, fencing: boolean): Schedule {
  const fenced = withPolicy(withDeviations(schedule, FENCING, []), { settings: { fencing } });
  const { resource } = schedule;
  return !fencing && resource !== undefined && looksAtTokens(resource) ? { ...fenced, resource: 'none' } : fenced;
}

function looksAtTokens(resource: ResourceGuard): boolean {
  return resource === 'fencing' || resource === 'fencing-strict';
}

/** Every planned lock. */
export function withLocks(schedule: Schedule, alter: (lock: LockPlan) => LockPlan): Schedule {
  const clients = schedule.clients.map((client) => ({ ...client, locks: client.locks.map(alter) }));
  return { ...schedule, clients };
}

/** One time to live for locks and extensions. */
export function withTtl(schedule: Schedule, ttlMs: number): Schedule {
  return withLocks(schedule, (lock) => ({
    ...lock,
    ttlMs,
    extensions: lock.extensions.map((extension) => ({ ...extension, ttlMs })),
  }));
}

/** Nodes that restart at all do so after `delayUs` or later. */
export function withRestartDelay(schedule: Schedule, delayUs: number): Schedule {
  const faults = schedule.faults.map((fault) =>
    fault.kind === 'crash' && fault.restartAfterUs !== null
      ? { ...fault, restartAfterUs: Math.min(LONGEST_US, Math.max(fault.restartAfterUs, delayUs)) }
      : fault,
  );
  return { ...schedule, faults };
}

/** Another number of nodes. Distances, clocks, faults and fates of nodes that are gone go with them. */
export function withNodes(schedule: Schedule, nodes: number): Schedule {
  const exists = (name: ProcessName): boolean => !name.startsWith('n') || Number(name.slice(1)) < nodes;
  const left = (fault: Fault): Fault[] => {
    switch (fault.kind) {
      case 'failover':
        return exists(fault.node) && exists(fault.to ?? fault.node) ? [fault] : [];
      case 'reconfigure': {
        const nodes = fault.nodes.filter(exists);
        return nodes.length > 0 ? [{ ...fault, nodes }] : [];
      }
      case 'crash':
      case 'data-loss':
      case 'error-replies':
        return exists(fault.node) ? [fault] : [];
      case 'client-crash':
        return [fault];
      case 'partition': {
        const [from, to] = [fault.from.filter(exists), fault.to.filter(exists)];
        return from.length > 0 && to.length > 0 ? [{ ...fault, from, to }] : [];
      }
      default:
        return exists(fault.process) ? [fault] : [];
    }
  };
  const { cluster } = schedule;
  const distances = cluster.distances.filter(({ node }) => exists(node));
  const clocks = cluster.clocks.filter(({ process }) => exists(process));
  return {
    ...schedule,
    cluster: { ...cluster, nodes, distances, clocks },
    clients: schedule.clients.map((client) => withoutNodes(client, exists)),
    faults: schedule.faults.flatMap(left),
    fates: schedule.fates.filter(({ node }) => exists(node)),
  };
}

/** No client has nodes or keys of its own. */
export function withOneMembership(schedule: Schedule): Schedule {
  return {
    ...schedule,
    clients: schedule.clients.map(({ nodes: _nodes, keyPrefix: _prefix, ...rest }) => rest),
    faults: schedule.faults.filter(({ kind }) => kind !== 'reconfigure'),
  };
}

/** A client whose list has no node that is gone. Where none is left, it has all of them. */
function withoutNodes(client: ClientPlan, exists: (name: ProcessName) => boolean): ClientPlan {
  const { nodes, ...rest } = client;
  const left = nodes?.filter(exists) ?? [];
  return left.length > 0 ? { ...rest, nodes: left } : rest;
}

/** For a client that never gives up; the pauses after that lie in the middle again. */
const MOST_SPREAD = 64;

/**
 * Gives every pause that has no place in its range yet one of its own: client `c<k>` pauses after attempt `a` of its
 * lock `l` at (k · 618 034 + l · 414 214 + a · 732 051) mod 1 000 000 ppm. These are fractions of irrational numbers, so
 * that the places lie evenly, and no two clients pause alike after the same attempt of the same lock.
 */
export function spreadJitter(schedule: Schedule): Schedule {
  const { tries } = policyOf(schedule.policy).settings;
  const attempts = Math.min(MOST_SPREAD, tries ?? MOST_SPREAD);
  const clients = schedule.clients.map((client) => {
    const start = Number(client.id.slice(1)) * 618_034;
    const locks = client.locks.map((lock, index) => {
      const jitterPpm = [...lock.jitterPpm];
      for (let attempt = jitterPpm.length; attempt < attempts; attempt++) {
        jitterPpm.push((start + index * 414_214 + attempt * 732_051) % (2 * MIDDLE_JITTER_PPM));
      }
      return { ...lock, jitterPpm };
    });
    return { ...client, locks };
  });
  return { ...schedule, clients };
}
