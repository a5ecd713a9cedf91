import { type Policy, policyOfClient } from '../policy.js';
import type { Origin } from './origin.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

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

/** Extends by SET XX, or else by SET NX, without a look at the owner of the key; cleans up nothing. */
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

/** Where these values were read. */
export const RUBY_PYTHON_PERL_ELIXIR_ORIGINS: Readonly<Record<string, Origin>> = {
  'antirez-redlock-rb': {
    title: 'antirez/redlock-rb',
    language: 'ruby',
    version: null,
    sources: [
      { repository: 'antirez/redlock-rb', commit: '2af803d830733c9a9aec21c334dee7f251e5181e', paths: ['redlock.rb'] },
    ],
    unknown: [],
    simplified: [],
  },
  'redlock-rb': {
    title: 'leandromoreira/redlock-rb',
    language: 'ruby',
    version: '2.0.6',
    sources: [
      {
        repository: 'leandromoreira/redlock-rb',
        commit: 'f176e5748a41e8b35a9a986fb6cc8eeae203a64f',
        paths: ['lib/redlock/client.rb', 'lib/redlock/scripts.rb'],
      },
    ],
    unknown: [],
    simplified: ['an extension by the old token is one round, without its single retry'],
  },
  'redlock-py': {
    title: 'SPSCommerce/redlock-py',
    language: 'python',
    version: '2016-03',
    sources: [
      {
        repository: 'SPSCommerce/redlock-py',
        commit: '42ef491061c3790307d39356b307c4318032c439',
        paths: ['redlock/__init__.py'],
      },
    ],
    unknown: [],
    simplified: [],
  },
  aioredlock: {
    title: 'joanvila/aioredlock',
    language: 'python',
    version: '0.7.3',
    sources: [
      {
        repository: 'joanvila/aioredlock',
        commit: '685d1b5b08113738083ac8a449cc56b5ce10cee2',
        paths: ['aioredlock/algorithm.py', 'aioredlock/redis.py'],
      },
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtPpm: 400_000 },
  },
  pottery: {
    title: 'brainix/pottery, Redlock',
    language: 'python',
    version: '3.0.1',
    sources: [
      {
        repository: 'brainix/pottery',
        commit: 'e2f40424c9dfc3f8de6efcfc4ff4e6d22155749c',
        paths: ['pottery/redlock.py', 'pottery/executor.py', 'pottery/aioredlock.py'],
      },
    ],
    unknown: [],
    simplified: [],
  },
  'glasslion-redlock': {
    title: 'glasslion/redlock',
    language: 'python',
    version: null,
    sources: [
      {
        repository: 'glasslion/redlock',
        commit: '067035bbbc571d8572263e2833e5429e3db8dd23',
        paths: ['redlock/lock.py'],
      },
    ],
    unknown: [],
    simplified: [],
  },
  'redis-distlock': {
    title: 'Redis::DistLock',
    language: 'perl',
    version: '0.07',
    sources: [
      {
        repository: 'sbertrang/redis-distlock',
        commit: '1e34b5ea2b4945a4b88097d44c7bcd832dc13e82',
        paths: ['lib/Redis/DistLock.pm'],
      },
    ],
    unknown: [],
    simplified: [],
  },
  'lyokato-redlock': {
    title: 'lyokato/redlock',
    language: 'elixir',
    version: null,
    sources: [
      {
        repository: 'lyokato/redlock',
        commit: '3ed52d2bdf6e5861006a741828d082632eeb396c',
        paths: ['lib/redlock/executor.ex'],
      },
      {
        repository: 'lyokato/redlock',
        commit: '13bccac8a20d9a4e5ddaf4a4561e988dfdb0ca55',
        paths: ['lib/redlock/util.ex'],
      },
    ],
    unknown: [
      'nodeTimeoutUs',
      'driftPpm',
      'tries',
      'retryDelayUs',
      'retryJitterUs',
      'own-key-grants',
      'extends-missing',
      'extends-present',
      'extends-any',
    ],
    simplified: ['pauses do not grow'],
  },
};
