import { type Policy, policyOfClient } from '../policy.js';
import type { Origin } from './origin.js';
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

/** Where these values were read. */
export const PHP_ORIGINS: Readonly<Record<string, Origin>> = {
  'redlock-php': {
    title: 'ronnylt/redlock-php',
    language: 'php',
    version: null,
    sources: [
      {
        repository: 'ronnylt/redlock-php',
        commit: '535d616f243fe8d72b96870bc3ddc488bb091d9e',
        paths: ['src/RedLock.php'],
      },
    ],
    unknown: [],
    simplified: [],
  },
  'php-lock-3': {
    title: 'php-lock/lock, DistributedMutex',
    language: 'php',
    version: '3.1.1',
    sources: [
      {
        repository: 'php-lock/lock',
        commit: '3e64b5e1b8283b781ed95f29bd83f84389f743e7',
        paths: [
          'src/Mutex/DistributedMutex.php',
          'src/Mutex/AbstractSpinlockWithTokenMutex.php',
          'src/Mutex/RedisMutex.php',
          'src/Util/Loop.php',
          'src/Util/LockUtil.php',
        ],
      },
    ],
    unknown: [],
    simplified: [
      'one token for all nodes of a try, where the library draws one for each',
      'pauses do not grow (10 ms, a quarter more each time, up to 500 ms)',
      'nodes are asked in order, not shuffled',
      'keys live for the TTL of the schedule; by default the library sets 1000 years',
    ],
  },
  'php-redis-mutex': {
    title: 'malkusch/lock, PHPRedisMutex',
    language: 'php',
    version: '2.2.1',
    sources: [
      {
        repository: 'php-lock/lock',
        commit: '63c1b268f521a702cb8755ed92631c1fac1775e6',
        paths: ['classes/mutex/RedisMutex.php', 'classes/mutex/SpinlockMutex.php', 'classes/mutex/PHPRedisMutex.php'],
      },
    ],
    unknown: ['tries', 'retryDelayUs', 'retryJitterUs', 'pauses-after-last'],
    simplified: ['the TTL of the schedule is not rounded to whole seconds'],
  },
};
