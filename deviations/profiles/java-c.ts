import { type Policy, policyOfClient } from '../policy.js';
import type { Origin } from './origin.js';
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

/** Where these values were read. */
export const JAVA_C_ORIGINS: Readonly<Record<string, Origin>> = {
  redisson: {
    title: 'Redisson, RedissonRedLock',
    language: 'java',
    version: '4.7.1-SNAPSHOT',
    sources: [
      {
        repository: 'redisson/redisson',
        commit: '66863978b4a92093b97c1f8c96f182a77e81d50e',
        paths: [
          'redisson/src/main/java/org/redisson/RedissonMultiLock.java',
          'redisson/src/main/java/org/redisson/RedissonRedLock.java',
          'redisson/src/main/java/org/redisson/RedissonLock.java',
          'redisson/src/main/java/org/redisson/renewal/RenewalTask.java',
          'redisson/src/main/java/org/redisson/renewal/LockTask.java',
          'redisson/src/main/java/org/redisson/config/Config.java',
          'redisson/src/main/java/org/redisson/config/BaseConfig.java',
          'docs/data-and-services/locks-and-synchronizers.md',
          'redisson/src/main/java/org/redisson/RedissonExpirable.java',
        ],
      },
    ],
    unknown: ['pauses-after-last'],
    simplified: [
      'goes on to all nodes, where the library stops at a failure once it has a quorum',
      'tries again after a pause, where the library waits for a message',
      'no counter of re-entries; no PEXPIRE of all keys after an acquisition with a lease',
      'the time-out of a node is that of a reply, 3 s',
    ],
    watched: { autoExtendAtPpm: 666_667, maxExtensions: null },
  },
  'redlock-cpp': {
    title: 'jacket-code/redlock-cpp',
    language: 'c++',
    version: null,
    sources: [
      {
        repository: 'jacket-code/redlock-cpp',
        commit: 'f9f56187bab5935c0857822e7953150a8836896f',
        paths: ['redlock-cpp/redlock.cpp'],
      },
    ],
    unknown: [],
    simplified: [
      'an extension keeps its token, and its keys where it fails; the library deletes each key and sets it again with a new token, and deletes those again where it fails',
    ],
  },
  'redlock-cs': {
    title: 'KidFashion/redlock-cs',
    language: 'c#',
    version: '2.0.8-4',
    sources: [
      {
        repository: 'KidFashion/redlock-cs',
        commit: '9765a542f8a78edbf7b5c6e17729124895fbc786',
        paths: ['src/redlock-cs/Redlock.cs'],
      },
    ],
    unknown: [],
    simplified: ['local time is the wall clock: a change to or from summer time is a step of an hour'],
  },
  'redlock-net': {
    title: 'samcook/RedLock.net',
    language: 'c#',
    version: '2.3.2',
    sources: [
      {
        repository: 'samcook/RedLock.net',
        commit: 'dcfe373b3e288caac4f45b78c88b5943f8b47e42',
        paths: [
          'RedLockNet.SERedis/RedLock.cs',
          'RedLockNet.SERedis/Lua/Extend.lua',
          'RedLockNet.SERedis/Lua/Unlock.lua',
          'RedLockNet.SERedis/Configuration/InternallyManagedRedLockConnectionProvider.cs',
        ],
      },
    ],
    unknown: [],
    simplified: ['three tries, without the loop around them'],
  },
  'distributed-lock-redis': {
    title: 'madelson/DistributedLock.Redis',
    language: 'c#',
    version: null,
    sources: [
      {
        repository: 'madelson/DistributedLock',
        commit: '55f8517e4f88024de7a4d37b56424337857e775c',
        paths: ['src/DistributedLock.Redis/RedLock/RedLockAcquire.cs'],
      },
      {
        repository: 'madelson/DistributedLock',
        commit: '3757293067ac4ca30a029c95830c021723af5299',
        paths: [
          'src/DistributedLock.Redis/RedLock/RedLockHelper.cs',
          'src/DistributedLock.Redis/RedLock/RedLockExtend.cs',
          'src/DistributedLock.Redis/RedisDistributedSynchronizationOptionsBuilder.cs',
        ],
      },
      {
        repository: 'madelson/DistributedLock',
        commit: '338025c469c13ba6b4d569344956752707b35a8c',
        paths: ['src/DistributedLock.Redis/Primitives/RedisMutexPrimitive.cs'],
      },
    ],
    unknown: [
      'tries',
      'maxExtensions',
      'token-per-call',
      'pauses-after-last',
      'release-must-delete',
      'release-must-free',
      'failure-releases',
      'failure-gives-up',
      'no-alarm',
    ],
    simplified: [
      'the time-out of a node is 3 s, a tenth of the default expiry (`advise` has as much of the TTL that it is told as the allowance, as the library)',
      'what is left has to be a tenth less than the TTL; the library bounds the time that the votes take',
    ],
  },
};
