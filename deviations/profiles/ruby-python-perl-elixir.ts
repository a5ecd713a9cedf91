import { type Policy, policyOfClient } from '../policy.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

/*
 * Where each value was read is in `origins.ts`.
 */

const ANTIREZ: Policy = policyOfClient('antirez-redlock-rb', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: 0, ...between(0, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'token-per-call',
    'stamps-us:1000',
    'deadline-counted-after-us:0',
    'pauses-after-last',
    'extends-late',
  ],
  habits: { clock: 'wall' },
});

/** The maintained fork: validity 0 is accepted, and the script that sets keys is the one that extends them. */
const REDLOCK_RB: Policy = policyOfClient('redlock-rb', {
  settings: { nodeTimeoutUs: 100_000, tries: 4, maxExtensions: null, ...between(200, 250) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'stamps-us:1000',
    'zero-is-valid',
    'deadline-counted-after-us:0',
    'extends-late',
    'failure-releases',
    'own-key-renews',
    'extends-missing',
  ],
  habits: { clock: 'monotonic' },
});

/** Errors of single nodes are raised after the count, even where the lock was won. */
const REDLOCK_PY: Policy = policyOfClient('redlock-py', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: 0, ...between(200, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'error-forfeits',
    'token-per-call',
    'stamps-us:1000',
    'deadline-counted-after-us:0',
    'pauses-after-last',
    'extends-late',
  ],
  habits: { clock: 'wall' },
});

/** Its SET takes its own token for a yes and gives it the TTL again, for tries and extensions alike. */
const AIOREDLOCK: Policy = policyOfClient('aioredlock', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: null },
  deviations: [
    ...ALL_KNOWN,
    'settles-with-all',
    'token-per-call',
    'cleans-last-only',
    'release-must-free',
    'release-awaits-all',
    'extends-late',
    'failure-gives-up',
    'own-key-renews',
    'extends-missing',
  ],
  habits: { clock: 'monotonic' },
});

const POTTERY: Policy = policyOfClient('pottery', {
  settings: { nodeTimeoutUs: null, tries: null, maxExtensions: 3, ...between(0, 200) },
  deviations: [
    ...ALL_KNOWN,
    'settles-early-on-yes',
    'extension-unchecked',
    'pauses-after-last',
    'release-must-delete',
    'awaits-clean-up',
    'extends-late',
  ],
  habits: { clock: 'monotonic' },
});

const GLASSLION: Policy = policyOfClient('glasslion-redlock', {
  settings: { nodeTimeoutUs: null, tries: 4, maxExtensions: 0, ...between(0, 200) },
  deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, ...IN_TURN, 'token-per-call', 'pauses-after-last', 'extends-late'],
  habits: { clock: 'wall' },
});

/** Extends by SET XX, or else by SET NX, whoever owns the key; cleans up nothing. */
const REDIS_DISTLOCK: Policy = policyOfClient('redis-distlock', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: null, ...between(0, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'asks-in-turn',
    'token-per-call',
    'deadline-counted-after-us:0',
    'releases-until-error',
    'pauses-after-last',
    'cleans-nothing',
    'extends-late',
    'extends-any',
  ],
  habits: { clock: 'wall' },
});

const LYOKATO: Policy = policyOfClient('lyokato-redlock', {
  settings: { maxExtensions: null },
  deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, ...IN_TURN, 'token-per-call', 'cleans-nothing', 'extends-late'],
  habits: { clock: 'wall' },
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
