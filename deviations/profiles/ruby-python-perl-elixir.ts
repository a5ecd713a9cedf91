import { policyOfClient } from '../policy.js';
import { type KnownClient, source } from './known-client.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

const ANTIREZ: KnownClient = {
  policy: policyOfClient('antirez-redlock-rb', {
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
  }),
  origin: {
    title: 'antirez/redlock-rb',
    language: 'ruby',
    version: null,
    sources: [source('antirez/redlock-rb', '2af803d830733c9a9aec21c334dee7f251e5181e', 'redlock.rb')],
    unknown: [],
    simplified: [],
  },
};

/** The maintained fork: validity 0 is accepted, and the script that sets keys is the one that extends them. */
const REDLOCK_RB: KnownClient = {
  policy: policyOfClient('redlock-rb', {
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
  }),
  origin: {
    title: 'leandromoreira/redlock-rb',
    language: 'ruby',
    version: '2.0.6',
    sources: [
      source(
        'leandromoreira/redlock-rb',
        'f176e5748a41e8b35a9a986fb6cc8eeae203a64f',
        'lib/redlock/client.rb',
        'lib/redlock/scripts.rb',
      ),
    ],
    unknown: [],
    simplified: ['an extension by the old token is one round, without its single retry'],
  },
};

/** Errors of single nodes are raised after the count, even where the lock was won. */
const REDLOCK_PY: KnownClient = {
  policy: policyOfClient('redlock-py', {
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
  }),
  origin: {
    title: 'SPSCommerce/redlock-py',
    language: 'python',
    version: '2016-03',
    sources: [source('SPSCommerce/redlock-py', '42ef491061c3790307d39356b307c4318032c439', 'redlock/__init__.py')],
    unknown: [],
    simplified: [],
  },
};

/** Its SET takes its own token for a yes and gives it the TTL again, for tries and extensions alike. */
const AIOREDLOCK: KnownClient = {
  policy: policyOfClient('aioredlock', {
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
  }),
  origin: {
    title: 'joanvila/aioredlock',
    language: 'python',
    version: '0.7.3',
    sources: [
      source(
        'joanvila/aioredlock',
        '685d1b5b08113738083ac8a449cc56b5ce10cee2',
        'aioredlock/algorithm.py',
        'aioredlock/redis.py',
      ),
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtPpm: 400_000 },
  },
};

const POTTERY: KnownClient = {
  policy: policyOfClient('pottery', {
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
  }),
  origin: {
    title: 'brainix/pottery, Redlock',
    language: 'python',
    version: '3.0.1',
    sources: [
      source(
        'brainix/pottery',
        'e2f40424c9dfc3f8de6efcfc4ff4e6d22155749c',
        'pottery/redlock.py',
        'pottery/executor.py',
        'pottery/aioredlock.py',
      ),
    ],
    unknown: [],
    simplified: [],
  },
};

const GLASSLION: KnownClient = {
  policy: policyOfClient('glasslion-redlock', {
    settings: { nodeTimeoutUs: null, tries: 4, maxExtensions: 0, ...between(0, 200) },
    deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, ...IN_TURN, 'token-per-call', 'pauses-after-last', 'extends-late'],
    habits: { clock: 'wall' },
  }),
  origin: {
    title: 'glasslion/redlock',
    language: 'python',
    version: null,
    sources: [source('glasslion/redlock', '067035bbbc571d8572263e2833e5429e3db8dd23', 'redlock/lock.py')],
    unknown: [],
    simplified: [],
  },
};

/** Extends by SET XX, or else by SET NX, whoever owns the key; cleans up nothing. */
const REDIS_DISTLOCK: KnownClient = {
  policy: policyOfClient('redis-distlock', {
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
  }),
  origin: {
    title: 'Redis::DistLock',
    language: 'perl',
    version: '0.07',
    sources: [source('sbertrang/redis-distlock', '1e34b5ea2b4945a4b88097d44c7bcd832dc13e82', 'lib/Redis/DistLock.pm')],
    unknown: [],
    simplified: [],
  },
};

const LYOKATO: KnownClient = {
  policy: policyOfClient('lyokato-redlock', {
    settings: { maxExtensions: null },
    deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, ...IN_TURN, 'token-per-call', 'cleans-nothing', 'extends-late'],
    habits: { clock: 'wall' },
  }),
  origin: {
    title: 'lyokato/redlock',
    language: 'elixir',
    version: null,
    sources: [
      source('lyokato/redlock', '3ed52d2bdf6e5861006a741828d082632eeb396c', 'lib/redlock/executor.ex'),
      source('lyokato/redlock', '13bccac8a20d9a4e5ddaf4a4561e988dfdb0ca55', 'lib/redlock/util.ex'),
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

/** Clients in Ruby, Python, Perl and Elixir. */
export const RUBY_PYTHON_PERL_ELIXIR: readonly KnownClient[] = [
  ANTIREZ,
  REDLOCK_RB,
  REDLOCK_PY,
  AIOREDLOCK,
  POTTERY,
  GLASSLION,
  REDIS_DISTLOCK,
  LYOKATO,
];
