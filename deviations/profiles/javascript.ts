import { type Policy, type PolicyChange, policyOfClient } from '../policy.js';
import type { Origin } from './origin.js';
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

/** Where these values were read. */
export const JAVASCRIPT_ORIGINS: Readonly<Record<string, Origin>> = {
  'node-redlock-4': {
    title: 'node-redlock',
    language: 'javascript',
    version: '4.2.0',
    sources: [
      {
        repository: 'mike-marcacci/node-redlock',
        commit: '870778cd520f9649e80f74fa755ee0f12519c683',
        paths: ['redlock.js'],
      },
    ],
    unknown: [],
    simplified: ['a failed extension is not tried again, which could only fail'],
  },
  'node-redlock-5': {
    title: 'node-redlock',
    language: 'typescript',
    version: '5.0.0-beta.2',
    sources: [
      {
        repository: 'mike-marcacci/node-redlock',
        commit: '54de94cfd7e311b8972455811436d45538fe85ed',
        paths: ['src/index.ts'],
      },
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'node-redlock-main': {
    title: 'node-redlock, main',
    language: 'typescript',
    version: 'unpublished',
    sources: [
      {
        repository: 'mike-marcacci/node-redlock',
        commit: 'afe5cf92c8247ba7b65b4ae36230f415493c44f0',
        paths: ['src/index.ts'],
      },
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'sesamecare-redlock': {
    title: '@sesamecare-oss/redlock',
    language: 'typescript',
    version: '1.4.0',
    sources: [
      { repository: 'npm', commit: '@sesamecare-oss/redlock@1.4.0', paths: ['src/index.ts', 'src/scripts.ts'] },
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'redlock-universal': {
    title: 'redlock-universal',
    language: 'typescript',
    version: '0.8.5',
    sources: [
      {
        repository: 'alexpota/redlock-universal',
        commit: 'e5aac0334ae621532c9734f395c6824964315f8b',
        paths: ['src/locks/RedLock.ts', 'src/constants.ts', 'src/utils/auto-extension.ts', 'src/utils/crypto.ts'],
      },
    ],
    unknown: [],
    simplified: ['the check and the PEXPIRE of an extension are one command'],
    watched: { autoExtendAtPpm: 200_000, autoExtendAtUs: 1_000_000, autoExtendSpacingUs: 0 },
  },
  'redis-semaphore': {
    title: 'redis-semaphore, RedlockMutex',
    language: 'typescript',
    version: '5.8.0',
    sources: [
      {
        repository: 'swarthy/redis-semaphore',
        commit: '63c2d013a3182aa4deeb7c60fd1465687e11cb36',
        paths: [
          'src/redlockMutex/acquire.ts',
          'src/redlockMutex/refresh.ts',
          'src/Lock.ts',
          'src/utils/redlock.ts',
          'src/misc.ts',
          'src/redlockMutex/release.ts',
          'src/mutex/refresh.ts',
        ],
      },
    ],
    unknown: [],
    simplified: ['an extension does not set missing keys on nodes outside its quorum'],
  },
};
