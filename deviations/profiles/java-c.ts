import type { Policy } from '../policy.js';
import { between, NOT_EXTENDED, parallel, sequential, upTo } from './shape.js';

/** No drift, no look at the time that the votes took, one token per thread; each node is renewed by itself. */
const REDISSON: Policy = sequential('redisson', {
  ...NOT_EXTENDED,
  nodeTimeoutUs: 3_000_000,
  clock: 'wall',
  stampUs: 1_000,
  driftPpm: 0,
  driftUs: 0,
  validityCheck: 'none',
  tokenScope: 'instance',
  ownKeyGrants: true,
  ownKeyRenews: true,
  tries: null,
  cleanup: 'not-refused',
  extendQuorumOffset: -31,
  extensionCheck: 'none',
});

/** A clock of whole seconds, and a quorum of the nodes that it is connected to. */
const REDLOCK_CPP: Policy = sequential('redlock-cpp', {
  nodesFrom: 'connected',
  clock: 'wall',
  stampUs: 1_000_000,
  deadline: 'relative',
  tries: 3,
  ...between(100, 300),
  pausesAfterLast: true,
  extendCommand: 'own-or-missing',
});

/** Releases and clean-ups end at the first node that fails. */
const REDLOCK_CS: Policy = sequential('redlock-cs', {
  ...NOT_EXTENDED,
  clock: 'wall',
  deadline: 'relative',
  tries: 3,
  ...upTo(200),
  pausesAfterLast: true,
  releaseSending: 'until-error',
});

/** RedLock.net: extends by itself as long as it lives, and sets keys again that are missing. */
const REDLOCK_NET: Policy = parallel('redlock-net', {
  nodeTimeoutUs: 1_000_000,
  clock: 'monotonic',
  tries: 3,
  ...upTo(400),
  extendCommand: 'own-or-missing',
  autoExtendAtPpm: 500_000,
});

/** madelson/DistributedLock: nine tenths of the expiry have to be left; requests in flight are released as they end. */
const DISTRIBUTED_LOCK_REDIS: Policy = parallel('distributed-lock-redis', {
  settle: 'early',
  nodeTimeoutUs: 3_000_000,
  clock: 'monotonic',
  driftPpm: 100_000,
  driftUs: 0,
  tokenScope: 'attempt',
  ...between(10, 800),
  cleanup: 'not-refused',
  releasesLateGrants: true,
  maxExtensions: 10,
  autoExtendAtPpm: 600_000,
  lossSignal: 'local-timer',
});

/** Clients in Java, C++ and C#. */
export const JAVA_C: readonly Policy[] = [REDISSON, REDLOCK_CPP, REDLOCK_CS, REDLOCK_NET, DISTRIBUTED_LOCK_REDIS];
