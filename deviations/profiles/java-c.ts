import { type Policy, policyOfClient } from '../policy.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

/** No drift, no look at the time that the votes took, one token per thread; each node is renewed by itself. */
const REDISSON: Policy = policyOfClient('redisson', {
  settings: { nodeTimeoutUs: 3_000_000, driftPpm: 0, driftUs: 0, tries: null, maxExtensions: 0 },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'extension-votes:-31',
    'token-per-call',
    'stamps-us:1000',
    'validity-unchecked',
    'deadline-stamps-us:1000',
    'cleans-unless-refused',
    'extends-late',
    'own-key-renews',
  ],
  habits: { clock: 'wall', tokenPerProcess: true },
});

/** A clock of whole seconds, and a quorum of the nodes that it is connected to. */
const REDLOCK_CPP: Policy = policyOfClient('redlock-cpp', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: null },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'token-per-call',
    'stamps-us:1000000',
    'deadline-counted-after-us:0',
    'pauses-after-last',
    'extends-late',
    'extends-missing',
  ],
  habits: { clock: 'wall', nodesFrom: 'connected' },
});

/** Releases and clean-ups end at the first node that fails. */
const REDLOCK_CS: Policy = policyOfClient('redlock-cs', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: 0, ...between(0, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'asks-in-turn',
    'token-per-call',
    'deadline-counted-after-us:0',
    'releases-until-error',
    'pauses-after-last',
    'extends-late',
  ],
  habits: { clock: 'wall' },
});

/** RedLock.net: extends by itself as long as it lives, and sets keys again that are missing. */
const REDLOCK_NET: Policy = policyOfClient('redlock-net', {
  settings: { nodeTimeoutUs: 1_000_000, tries: 3, maxExtensions: null, autoExtendAtPpm: 500_000, ...between(0, 400) },
  deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, 'token-per-call', 'extends-late', 'extends-missing'],
  habits: { clock: 'monotonic' },
});

/** madelson/DistributedLock: nine tenths of the expiry have to be left; requests in flight are released as they end. */
const DISTRIBUTED_LOCK_REDIS: Policy = policyOfClient('distributed-lock-redis', {
  settings: { nodeTimeoutUs: 3_000_000, driftPpm: 100_000, driftUs: 0, autoExtendAtPpm: 600_000, ...between(10, 800) },
  deviations: ['drift-unrounded', 'cleans-unless-refused', 'awaits-clean-up', 'extends-late'],
  habits: { clock: 'monotonic' },
});

/** Clients in Java, C++ and C#. */
export const JAVA_C: readonly Policy[] = [REDISSON, REDLOCK_CPP, REDLOCK_CS, REDLOCK_NET, DISTRIBUTED_LOCK_REDIS];
