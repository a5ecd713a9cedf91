import type { Policy } from '../policy.js';
import { between, NOT_EXTENDED, sequential } from './shape.js';

/** A quorum in floating point, tokens that are a time of day, and exceptions that nobody catches. */
const REDLOCK_PHP: Policy = sequential('redlock-php', {
  ...NOT_EXTENDED,
  quorum: 'float-majority',
  onNodeError: 'abort',
  clock: 'wall',
  deadline: 'relative',
  tokenFrom: 'clock-us',
  tries: 3,
  ...between(100, 200),
  pausesAfterLast: true,
});

/** `DistributedMutex`: no allowance for drift, and only nodes that said yes are cleaned up. */
const PHP_LOCK_3: Policy = sequential('php-lock-3', {
  ...NOT_EXTENDED,
  settle: 'early-no',
  clock: 'wall',
  driftPpm: 0,
  driftUs: 0,
  validityCheck: 'non-negative',
  tokenScope: 'attempt',
  tries: null,
  acquireTimeoutUs: 3_000_000,
  ...between(10, 20),
  cleanup: 'granted',
  releaseRule: 'deleted',
  releaseTo: 'granted',
});

/** `PHPRedisMutex` of malkusch/lock 2. */
const PHP_REDIS_MUTEX: Policy = sequential('php-redis-mutex', {
  ...NOT_EXTENDED,
  clock: 'wall',
  driftPpm: 0,
  driftUs: 0,
  validityCheck: 'non-negative',
  tokenScope: 'attempt',
  releaseRule: 'deleted',
});

/** Clients in PHP. */
export const PHP: readonly Policy[] = [REDLOCK_PHP, PHP_LOCK_3, PHP_REDIS_MUTEX];
