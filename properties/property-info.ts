import type { PropertyId, PropertyKind } from '../scenarios/index.js';
import type { Assumption } from './assumptions.js';

/** What is promised by a property, on what conditions, and who watches it. */
interface PropertyInfo {
  /** `harness` is about the simulator, and not about any lock. */
  readonly kind: PropertyKind | 'harness';
  /** One sentence. */
  readonly definition: string;
  /** Assumptions about clocks, nodes and clients without which the lock does not promise it. */
  readonly assumes: readonly Assumption[];
  /** What else has to be so, mostly for the time in which somebody waits; or nothing. */
  readonly while?: string;
  /** Source file, from the root. */
  readonly monitor: string;
  /** Which of the three guarantees of the redis.io page it is. */
  readonly guarantee?: string;
}

const TIME: readonly Assumption[] = ['clock-drift', 'clock-step', 'durability', 'durable-failover', 'same-membership'];

const CALM =
  'nothing is disturbed (no fault strikes or ends; no message is lost, copied, resent, or slower than half a time-out, a quarter where scripts go by hash)';

/** Every property, by its id. */
export const PROPERTIES: Readonly<Record<PropertyId, PropertyInfo>> = {
  'mutual-exclusion': {
    kind: 'belief',
    definition: 'At no instant do two clients believe to hold one resource; a claim may begin as another ends.',
    assumes: TIME,
    monitor: 'properties/monitors/mutual-exclusion.ts',
    guarantee: 'Safety property: mutual exclusion',
  },
  'quorum-backed': {
    kind: 'state',
    definition: 'As long as a client believes, a majority of its nodes hold its token.',
    assumes: TIME,
    monitor: 'properties/monitors/quorum-backed.ts',
  },
  acquisition: {
    kind: 'state',
    definition:
      'A claim rests on a majority of yeses to this very attempt, ends by T1 + TTL − D, and has something left.',
    assumes: [],
    monitor: 'properties/monitors/acquisition.ts',
  },
  extension: {
    kind: 'state',
    definition:
      'An extension rests on a majority that carried it out in this very round, ends by its start + TTL − D, and has something left when it is taken for one.',
    assumes: [],
    monitor: 'properties/monitors/extension.ts',
  },
  continuity: {
    kind: 'state',
    definition: 'Between a claim and its extension nobody else held the lock.',
    assumes: TIME,
    monitor: 'properties/monitors/continuity.ts',
  },
  'loss-notified': {
    kind: 'state',
    definition:
      'A lock whose majority was lost is never taken for extended, and a client that runs is told when its claim is over.',
    assumes: TIME,
    monitor: 'properties/monitors/loss-notified.ts',
  },
  'unique-token': {
    kind: 'state',
    definition: 'No two attempts use the same token.',
    assumes: [],
    monitor: 'properties/monitors/unique-token.ts',
  },
  'one-lock-per-token': {
    kind: 'state',
    definition: 'A token belongs to one lock: no other asks for anything with it.',
    assumes: [],
    monitor: 'properties/monitors/unique-token.ts',
  },
  'bounded-key-lifetime': {
    kind: 'state',
    definition:
      'No key is on a node that is up when the TTLs of all commands with its token that the node has carried out are over by its own clock.',
    assumes: [],
    monitor: 'properties/monitors/key-lifetime.ts',
  },
  'owner-only-release': {
    kind: 'state',
    definition:
      'A key is deleted or overwritten only by a command of the lock that it belongs to: the one whose command set it.',
    assumes: [],
    monitor: 'properties/monitors/owner-only-release.ts',
  },
  'no-stale-write': {
    kind: 'effect',
    definition: 'No write reaches the protected resource unless its client holds the lock.',
    assumes: ['bounded-write-delay'],
    monitor: 'properties/monitors/no-stale-write.ts',
  },
  fencing: {
    kind: 'effect',
    definition:
      'Fencing tokens of successive holders rise, those of overlapping ones differ, a resource refuses none that is not lower, and nobody is told that there are no tokens any more. (Tokens rise without `counters`, too.)',
    assumes: ['counters', 'same-membership'],
    monitor: 'properties/monitors/fencing.ts',
  },
  'release-to-all': {
    kind: 'liveness',
    definition: 'A release is sent to every node that was ever asked for the lock.',
    assumes: [],
    monitor: 'properties/monitors/release-to-all.ts',
  },
  cleanup: {
    kind: 'liveness',
    definition:
      'No key of an attempt that failed, or of a lock that was released, is on a node that was sent no release; no extension sets one where the release was carried out; and a client that hears that a SET was granted, and that its release had found nothing, releases it again.',
    assumes: [],
    monitor: 'properties/monitors/cleanup.ts',
  },
  'deadlock-free': {
    kind: 'liveness',
    definition:
      'A client that keeps trying has the lock after one release time-out, one attempt, one pause and one more attempt; keys of others end with their TTL, tries are not burnt without pauses, and a lock that extends itself ends after (M + 1) TTLs.',
    assumes: ['same-membership'],
    while: `nobody else asks for or holds the resource, every node is in order, and ${CALM}`,
    monitor: 'properties/monitors/liveness/uncontended-wait.ts',
    guarantee: 'Liveness property A: deadlock free',
  },
  'fault-tolerance': {
    kind: 'liveness',
    definition:
      'The same with a minority of the nodes dead, hung, refusing or cut off throughout; besides, no call takes longer than its own time-outs, and no client gives up before its tries are used up.',
    assumes: ['same-membership'],
    while: `nobody else asks for or holds the resource, the same majority is in order all the while, and ${CALM}; for calls that return: always`,
    monitor: 'properties/monitors/liveness/uncontended-wait.ts',
    guarantee: 'Liveness property B: fault tolerance',
  },
  progress: {
    kind: 'liveness',
    definition:
      'Of several clients that keep trying, one has the lock before each has failed more than ten times; and time goes on while they try.',
    assumes: ['same-membership'],
    while: `pauses between attempts have jitter, a majority of the nodes is in order and free, and ${CALM}`,
    monitor: 'properties/monitors/liveness/progress.ts',
  },
  determinism: {
    kind: 'harness',
    definition: 'The same schedule gives the same trace hash, in any process and without a just-in-time compiler.',
    assumes: [],
    monitor: 'search/determinism.prop.test.ts',
  },
  'message-integrity': {
    kind: 'harness',
    definition:
      'A request is carried out once unless it was copied or resent, an answer answers what was carried out, and no timer or expiry is early.',
    assumes: [],
    monitor: 'bench/oracle/message-integrity.ts',
  },
};
