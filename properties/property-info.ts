import type { PropertyId, PropertyKind } from '../scenarios/index.js';
import type { Assumption } from './assumptions.js';

/** What a property promises, on which conditions, and which monitor checks it. */
interface PropertyInfo {
  /** `harness` is about the simulator, and not about any lock. */
  readonly kind: PropertyKind | 'harness';
  /** One sentence. */
  readonly definition: string;
  /** Assumptions about clocks, nodes and clients without which the lock does not promise it. */
  readonly assumes: readonly Assumption[];
  /** Further conditions, mostly for the time in which a client waits; none where left out. */
  readonly while?: string;
  /** Source file, from the root. */
  readonly monitor: string;
  /** Which of the three guarantees of the redis.io page it is. */
  readonly guarantee?: string;
}

const TIME: readonly Assumption[] = ['clock-drift', 'clock-step', 'durability', 'durable-failover', 'same-membership'];

const CALM =
  'nothing is disturbed (no fault begins or ends; no message is lost, copied, resent, or slower than half a time-out, or a quarter if scripts are sent by hash)';

/** Every property, by its id. */
export const PROPERTIES: Readonly<Record<PropertyId, PropertyInfo>> = {
  'mutual-exclusion': {
    kind: 'belief',
    definition: 'At no instant do two clients believe that they hold one resource; a hold may begin as another ends.',
    assumes: TIME,
    monitor: 'properties/monitors/mutual-exclusion.ts',
    guarantee: 'Safety property: mutual exclusion',
  },
  'quorum-backed': {
    kind: 'state',
    definition: 'While a client believes that it holds the lock, a majority of its nodes have its token.',
    assumes: TIME,
    monitor: 'properties/monitors/quorum-backed.ts',
  },
  acquisition: {
    kind: 'state',
    definition:
      'A hold is backed by a majority of grants to this very attempt, ends by T1 + TTL − D, and has validity left.',
    assumes: [],
    monitor: 'properties/monitors/acquisition.ts',
  },
  extension: {
    kind: 'state',
    definition:
      'An extension is backed by a majority that executed it in this very round, ends by its start + TTL − D, and has validity left when it counts as done.',
    assumes: [],
    monitor: 'properties/monitors/extension.ts',
  },
  continuity: {
    kind: 'state',
    definition: 'Between a hold and its extension no other client held the lock.',
    assumes: TIME,
    monitor: 'properties/monitors/continuity.ts',
  },
  'loss-notified': {
    kind: 'state',
    definition:
      'A lock that lost its majority never counts as extended, and a running client is notified when its hold is over.',
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
    definition: 'A token belongs to one lock: no other lock sends a command with it.',
    assumes: [],
    monitor: 'properties/monitors/unique-token.ts',
  },
  'bounded-key-lifetime': {
    kind: 'state',
    definition:
      'A node that is up has no key once the TTLs of all commands with its token that the node executed are over by its own clock.',
    assumes: [],
    monitor: 'properties/monitors/key-lifetime.ts',
  },
  'owner-only-release': {
    kind: 'state',
    definition:
      'A key is deleted or overwritten only by commands of the lock that it belongs to: the one whose command set it.',
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
      'Fencing tokens of successive holders rise, those of overlapping holders differ, a resource refuses lower tokens only, and no client is told that no tokens are left. (Tokens rise without `counters`, too.)',
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
      'No key of a failed attempt or of a released lock is on a node that was sent no release; no extension sets a key on a node that executed the release; and a client that learns that a SET was granted, and that its release had found nothing, releases it again.',
    assumes: [],
    monitor: 'properties/monitors/cleanup.ts',
  },
  'deadlock-free': {
    kind: 'liveness',
    definition:
      'A client that keeps trying has the lock after one release time-out, one attempt, one pause and one more attempt; keys of other clients end with their TTL, attempts are not used up without pauses, and a lock that extends itself ends after (M + 1) TTLs.',
    assumes: ['same-membership'],
    while: `no other client asks for or holds the resource, every node is in order, and ${CALM}`,
    monitor: 'properties/monitors/liveness/uncontended-wait.ts',
    guarantee: 'Liveness property A: deadlock free',
  },
  'fault-tolerance': {
    kind: 'liveness',
    definition:
      'The same with a minority of the nodes dead, hung, refusing or partitioned throughout; besides, no call takes longer than its own time-outs, and no client gives up before its attempts are used up.',
    assumes: ['same-membership'],
    while: `no other client asks for or holds the resource, the same majority is in order throughout, and ${CALM}; for calls that return: always`,
    monitor: 'properties/monitors/liveness/uncontended-wait.ts',
    guarantee: 'Liveness property B: fault tolerance',
  },
  progress: {
    kind: 'liveness',
    definition:
      'Of several clients that keep trying, one has the lock before each has failed more than ten times; and time advances while they try.',
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
      'A request is executed once unless it was copied or resent, an answer matches what was executed, and no timer or expiry is early.',
    assumes: [],
    monitor: 'bench/oracle/message-integrity.ts',
  },
};
