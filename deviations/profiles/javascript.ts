import type { Policy } from '../policy.js';
import { between, type Deviation, parallel } from './shape.js';

const DATE_NOW: Deviation = { clock: 'wall', stampUs: 1_000 };

/** A failed extension deletes the keys, while the caller's lock keeps the deadline that it had. */
const NODE_REDLOCK_4: Policy = parallel('node-redlock-4', {
  ...DATE_NOW,
  ...between(100, 300),
  releaseRule: 'deleted',
  extendStartsInTime: true,
  extendOnFail: 'release',
});

/** Settles at a quorum either way, never looks at what is left of the TTL, and cleans up after the last try only. */
const MAIN: Deviation = {
  ...DATE_NOW,
  settle: 'quorum-only',
  validityCheck: 'none',
  ...between(100, 300),
  cleanupAfter: 'last-attempt',
  releaseRule: 'deleted',
  releaseTries: 11,
  extensionCheck: 'none',
  extendStartsInTime: true,
  lossSignal: 'after-reply',
};

/** 5.0.0-beta.2: validity counts from the first try. */
const NODE_REDLOCK_5: Policy = parallel('node-redlock-5', { ...MAIN, validityFrom: 'call' });
const NODE_REDLOCK_MAIN: Policy = parallel('node-redlock-main', MAIN);
const SESAMECARE: Policy = parallel('sesamecare-redlock', MAIN);

/** The handle knows the time of its grant and the TTL, and nothing of what the votes took. */
const UNIVERSAL: Policy = parallel('redlock-universal', {
  ...DATE_NOW,
  deadline: 'whole-ttl',
  tokenScope: 'attempt',
  tries: 4,
  ...between(200, 200),
  cleanup: 'granted',
  releaseRule: 'deleted',
  extensionCheck: 'none',
  lossSignal: 'after-reply',
});

/** `RedlockMutex`: measures no time but that of the caller's patience, and has one token for all its life. */
const REDIS_SEMAPHORE: Policy = parallel('redis-semaphore', {
  ...DATE_NOW,
  driftPpm: 0,
  driftUs: 0,
  validityCheck: 'none',
  tokenScope: 'instance',
  tries: null,
  acquireTimeoutUs: 10_000_000,
  ...between(10, 10),
  pausesAfterLast: true,
  extensionCheck: 'none',
  extendOnFail: 'give-up',
  autoExtendAtPpm: 200_000,
  lossSignal: 'after-reply',
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
