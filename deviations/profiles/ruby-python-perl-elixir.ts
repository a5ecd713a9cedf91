import type { Policy } from '../policy.js';
import { between, NOT_EXTENDED, parallel, sequential, upTo } from './shape.js';

/*
 * Where each value was read is in `origins.ts`.
 */

const ANTIREZ: Policy = sequential('antirez-redlock-rb', {
  ...NOT_EXTENDED,
  clock: 'wall',
  stampUs: 1_000,
  deadline: 'relative',
  tries: 3,
  ...upTo(200),
  pausesAfterLast: true,
});

/** The maintained fork: validity 0 is accepted, and the script that sets keys is the one that extends them. */
const REDLOCK_RB: Policy = sequential('redlock-rb', {
  nodeTimeoutUs: 100_000,
  clock: 'monotonic',
  stampUs: 1_000,
  deadline: 'relative',
  validityCheck: 'non-negative',
  tokenScope: 'attempt',
  ownKeyGrants: true,
  ownKeyRenews: true,
  tries: 4,
  ...between(200, 250),
  extendCommand: 'own-or-missing',
  extendOnFail: 'release',
});

/** Errors of single nodes are raised after the count, even where the lock was won. */
const REDLOCK_PY: Policy = sequential('redlock-py', {
  ...NOT_EXTENDED,
  onNodeError: 'forfeit',
  clock: 'wall',
  stampUs: 1_000,
  deadline: 'relative',
  tries: 3,
  ...between(200, 200),
  pausesAfterLast: true,
});

/** Its SET takes its own token for a yes and gives it the TTL anew, for tries and extensions alike. */
const AIOREDLOCK: Policy = parallel('aioredlock', {
  clock: 'monotonic',
  ownKeyGrants: true,
  ownKeyRenews: true,
  tries: 3,
  ...between(100, 300),
  cleanupAfter: 'last-attempt',
  cleanupAwaited: false,
  releaseRule: 'freed',
  extendCommand: 'own-or-missing',
  extendOnFail: 'give-up',
});

const POTTERY: Policy = parallel('pottery', {
  settle: 'early-yes',
  clock: 'monotonic',
  tokenScope: 'attempt',
  tries: null,
  ...upTo(200),
  pausesAfterLast: true,
  releaseRule: 'deleted',
  extensionCheck: 'none',
  maxExtensions: 3,
});

const GLASSLION: Policy = sequential('glasslion-redlock', {
  ...NOT_EXTENDED,
  clock: 'wall',
  tries: 4,
  ...upTo(200),
  pausesAfterLast: true,
});

/** Extends by SET XX, or else by SET NX, whoever owns the key; cleans up nothing. */
const REDIS_DISTLOCK: Policy = sequential('redis-distlock', {
  clock: 'wall',
  deadline: 'relative',
  tries: 3,
  ...upTo(200),
  pausesAfterLast: true,
  cleanup: 'none',
  releaseSending: 'until-error',
  extendCommand: 'any',
});

const LYOKATO: Policy = sequential('lyokato-redlock', {
  nodeTimeoutUs: 50_000,
  clock: 'wall',
  cleanup: 'none',
});

/** Clients in Ruby, Python, Perl and Elixir. */
export const RUBY_PYTHON_PERL_ELIXIR: readonly Policy[] = [
  ANTIREZ,
  REDLOCK_RB,
  REDLOCK_PY,
  AIOREDLOCK,
  POTTERY,
  GLASSLION,
  REDIS_DISTLOCK,
  LYOKATO,
];
