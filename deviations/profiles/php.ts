import { type Policy, policyOfClient } from '../policy.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

/** A quorum in floating point, tokens that are a time of day, and exceptions that nobody catches. */
const REDLOCK_PHP: Policy = policyOfClient('redlock-php', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: 0, ...between(100, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'float-majority',
    'error-aborts',
    'token-per-call',
    'deadline-counted-after-us:0',
    'pauses-after-last',
    'extends-late',
  ],
  habits: { clock: 'wall', tokenFrom: 'clock-us' },
});

/** `DistributedMutex`: no allowance for drift, and only nodes that said yes are cleaned up. */
const PHP_LOCK_3: Policy = policyOfClient('php-lock-3', {
  settings: {
    nodeTimeoutUs: null,
    driftPpm: 0,
    driftUs: 0,
    tries: null,
    acquireTimeoutUs: 3_000_000,
    maxExtensions: 0,
    ...between(10, 20),
  },
  deviations: [
    ...ALL_KNOWN,
    ...IN_TURN,
    'settles-early-on-no',
    'zero-is-valid',
    'cleans-granted',
    'releases-granted',
    'release-must-delete',
    'release-awaits-all',
    'awaits-whole-clean-up',
    'extends-late',
  ],
  habits: { clock: 'wall' },
});

/** `PHPRedisMutex` of malkusch/lock 2. */
const PHP_REDIS_MUTEX: Policy = policyOfClient('php-redis-mutex', {
  settings: { nodeTimeoutUs: null, driftPpm: 0, driftUs: 0, maxExtensions: 0 },
  deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, ...IN_TURN, 'zero-is-valid', 'release-must-delete', 'extends-late'],
  habits: { clock: 'wall' },
});

/** Clients in PHP. */
export const PHP: readonly Policy[] = [REDLOCK_PHP, PHP_LOCK_3, PHP_REDIS_MUTEX];
