import { type Policy, type PolicyChange, policyOfClient } from '../policy.js';
import { ALL_KNOWN, between, WAITS_FOR_ALL } from './shape.js';

/** A failed extension deletes the keys, while the caller's lock keeps the deadline that it had. */
const NODE_REDLOCK_4: Policy = policyOfClient('node-redlock-4', {
  settings: { nodeTimeoutUs: null, maxExtensions: null },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'token-per-call',
    'stamps-us:1000',
    'deadline-stamps-us:1000',
    'release-must-delete',
    'extends-if-begun-in-time',
    'failure-releases',
  ],
  habits: { clock: 'wall' },
});

/** Settles at a quorum either way, never looks at what is left of the TTL, and cleans up after the last try only. */
const MAIN = {
  settings: { nodeTimeoutUs: null, releaseTries: 11, maxExtensions: null },
  deviations: [
    ...ALL_KNOWN,
    'settles-by-quorum-only',
    'token-per-call',
    'stamps-us:1000',
    'validity-unchecked',
    'deadline-stamps-us:1000',
    'cleans-last-only',
    'release-must-delete',
    'awaits-clean-up',
    'extends-if-begun-in-time',
    'loss-noticed-at-failure',
  ],
  habits: { clock: 'wall' },
} satisfies PolicyChange;

/** 5.0.0-beta.2: validity counts from the first try. */
const NODE_REDLOCK_5: Policy = policyOfClient('node-redlock-5', {
  ...MAIN,
  deviations: [...MAIN.deviations, 'counts-from-call'],
});
const NODE_REDLOCK_MAIN: Policy = policyOfClient('node-redlock-main', MAIN);
const SESAMECARE: Policy = policyOfClient('sesamecare-redlock', MAIN);

/** The handle knows the time of its grant and the TTL, and nothing of what the votes took. */
const UNIVERSAL: Policy = policyOfClient('redlock-universal', {
  settings: { nodeTimeoutUs: null, tries: 4, maxExtensions: null, ...between(200, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'stamps-us:1000',
    'extension-unchecked',
    'deadline-whole-ttl',
    'cleans-granted',
    'release-must-delete',
    'extends-late',
    'loss-noticed-at-failure',
  ],
  habits: { clock: 'wall' },
});

/** `RedlockMutex`: measures no time but that of the caller's patience, and has one token for all its life. */
const REDIS_SEMAPHORE: Policy = policyOfClient('redis-semaphore', {
  settings: {
    nodeTimeoutUs: null,
    driftPpm: 0,
    driftUs: 0,
    tries: null,
    acquireTimeoutUs: 10_000_000,
    maxExtensions: null,
    autoExtendAtPpm: 200_000,
    ...between(10, 10),
  },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'token-per-call',
    'stamps-us:1000',
    'validity-unchecked',
    'deadline-stamps-us:1000',
    'pauses-after-last',
    'extends-late',
    'loss-noticed-at-failure',
    'failure-gives-up',
  ],
  habits: { clock: 'wall', tokenPerProcess: true },
});

/** Clients in JavaScript and TypeScript. */
export const JAVASCRIPT: readonly Policy[] = [
  NODE_REDLOCK_4,
  NODE_REDLOCK_5,
  NODE_REDLOCK_MAIN,
  SESAMECARE,
  UNIVERSAL,
  REDIS_SEMAPHORE,
];
