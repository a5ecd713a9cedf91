import { type Policy, policyOfClient } from '../policy.js';
import type { Origin } from './origin.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

/** hjr265/redsync.go: the constant part of the allowance is added to the validity instead of taken from it. */
const REDSYNC_2015: Policy = policyOfClient('redsync-2015', {
  settings: { nodeTimeoutUs: null, tries: 16, maxExtensions: 0, ...between(512, 512) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'token-per-call',
    'drift-constant-added',
    'pauses-after-last',
    'extends-late',
  ],
  habits: { clock: 'monotonic' },
});

/** Extensions count every answer but an error as a yes (issue 61), and are not looked at for what is left (issue 71). */
const REDSYNC_2020: Policy = policyOfClient('redsync-2020', {
  settings: { nodeTimeoutUs: null, driftUs: 0, tries: 32, maxExtensions: null, ...between(500, 500) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'refusal-extends',
    'errors-quit',
    'token-per-call',
    'extension-unchecked',
    'extends-late',
  ],
  habits: { clock: 'monotonic' },
});

const REDSYNC_4: Policy = policyOfClient('redsync-4', {
  settings: { nodeTimeoutUs: 400_000, driftUs: 0, tries: 32, maxExtensions: null, ...between(50, 250) },
  deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, 'token-per-call', 'release-must-delete', 'extends-late'],
  habits: { clock: 'monotonic' },
});

/** Gives up without a clean-up where the votes came too late; a failed extension deletes the keys of a lock that goes on. */
const RSLOCK: Policy = policyOfClient('rslock', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: null, ...between(0, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    'lateness-quits',
    'token-per-call',
    'deadline-counted-after-us:0',
    'extends-late',
    'loss-noticed-at-failure',
    'failure-releases',
    'no-late-auto-extension',
  ],
  habits: { clock: 'monotonic' },
});

/** Validity is an unsigned number: in a release build, less than nothing wraps around to very much. */
const REDLOCK_RS: Policy = policyOfClient('redlock-rs', {
  settings: { nodeTimeoutUs: null, tries: 3, maxExtensions: 0, ...between(0, 200) },
  deviations: [
    ...ALL_KNOWN,
    ...WAITS_FOR_ALL,
    ...IN_TURN,
    'token-per-call',
    'validity-unsigned',
    'deadline-counted-after-us:0',
    'pauses-after-last',
    'extends-late',
  ],
  habits: { clock: 'monotonic' },
});

/** Clients in Go and Rust. */
export const GO_RUST: readonly Policy[] = [REDSYNC_2015, REDSYNC_2020, REDSYNC_4, RSLOCK, REDLOCK_RS];

/** Where these values were read. */
export const GO_RUST_ORIGINS: Readonly<Record<string, Origin>> = {
  'redsync-2015': {
    title: 'hjr265/redsync.go',
    language: 'go',
    version: null,
    sources: [
      {
        repository: 'hjr265/redsync.go',
        commit: '099d3c31768be20a17a0a8efe1c2296e6a18f649',
        paths: ['redsync/mutex.go'],
      },
    ],
    unknown: [],
    simplified: ['the monotonic reading of time.Now came with Go 1.9'],
  },
  'redsync-2020': {
    title: 'go-redsync/redsync',
    language: 'go',
    version: '2020-09',
    sources: [
      {
        repository: 'go-redsync/redsync',
        commit: 'c3d68450cd543078852611a33162d06463402c26',
        paths: ['mutex.go', 'redsync.go'],
      },
    ],
    unknown: [],
    simplified: [],
  },
  'redsync-4': {
    title: 'go-redsync/redsync',
    language: 'go',
    version: '4.17',
    sources: [
      {
        repository: 'go-redsync/redsync',
        commit: '5560bd2d477db3ce962d5f052bf695543c826751',
        paths: ['mutex.go', 'redsync.go', 'scripts.go'],
      },
    ],
    unknown: [],
    simplified: [
      'the time-out of a node is 400 ms, 5 % of the default expiry (`advise` has 5 % of the TTL that it is told, as the library); releases and extensions have it too',
    ],
  },
  rslock: {
    title: 'hexcowboy/rslock',
    language: 'rust',
    version: '0.7.3',
    sources: [
      { repository: 'hexcowboy/rslock', commit: 'e5d758312081540b3fbb4871a139b6349ef785c1', paths: ['src/lock.rs'] },
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'redlock-rs': {
    title: 'badboy/redlock-rs',
    language: 'rust',
    version: null,
    sources: [
      {
        repository: 'badboy/redlock-rs',
        commit: '0ca2be37d9008ca0e33960d901213493e03c0bea',
        paths: ['src/redlock.rs'],
      },
    ],
    unknown: [],
    simplified: [],
  },
};
