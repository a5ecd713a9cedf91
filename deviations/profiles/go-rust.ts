import { policyOfClient } from '../policy.js';
import { type KnownClient, source } from './known-client.js';
import { ALL_KNOWN, between, IN_TURN, WAITS_FOR_ALL } from './shape.js';

/** hjr265/redsync.go: the constant part of the allowance is added to the validity instead of taken from it. */
const REDSYNC_2015: KnownClient = {
  policy: policyOfClient('redsync-2015', {
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
  }),
  origin: {
    title: 'hjr265/redsync.go',
    language: 'go',
    version: null,
    sources: [source('hjr265/redsync.go', '099d3c31768be20a17a0a8efe1c2296e6a18f649', 'redsync/mutex.go')],
    unknown: [],
    simplified: ['the monotonic reading of time.Now came with Go 1.9'],
  },
};

/** Extensions count every answer but an error as a yes (issue 61), and are not looked at for what is left (issue 71). */
const REDSYNC_2020: KnownClient = {
  policy: policyOfClient('redsync-2020', {
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
  }),
  origin: {
    title: 'go-redsync/redsync',
    language: 'go',
    version: '2020-09',
    sources: [source('go-redsync/redsync', 'c3d68450cd543078852611a33162d06463402c26', 'mutex.go', 'redsync.go')],
    unknown: [],
    simplified: [],
  },
};

const REDSYNC_4: KnownClient = {
  policy: policyOfClient('redsync-4', {
    settings: { nodeTimeoutUs: 400_000, driftUs: 0, tries: 32, maxExtensions: null, ...between(50, 250) },
    deviations: [...ALL_KNOWN, ...WAITS_FOR_ALL, 'token-per-call', 'release-must-delete', 'extends-late'],
    habits: { clock: 'monotonic' },
  }),
  origin: {
    title: 'go-redsync/redsync',
    language: 'go',
    version: '4.17',
    sources: [
      source('go-redsync/redsync', '5560bd2d477db3ce962d5f052bf695543c826751', 'mutex.go', 'redsync.go', 'scripts.go'),
    ],
    unknown: [],
    simplified: [
      'the time-out of a node is 400 ms, 5 % of the default expiry, whatever the TTL; releases and extensions have it too',
    ],
  },
};

/** Gives up without a clean-up where the votes came too late; a failed extension deletes the keys of a lock that goes on. */
const RSLOCK: KnownClient = {
  policy: policyOfClient('rslock', {
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
  }),
  origin: {
    title: 'hexcowboy/rslock',
    language: 'rust',
    version: '0.7.3',
    sources: [source('hexcowboy/rslock', 'e5d758312081540b3fbb4871a139b6349ef785c1', 'src/lock.rs')],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
};

/** Validity is an unsigned number: in a release build, less than nothing wraps around to very much. */
const REDLOCK_RS: KnownClient = {
  policy: policyOfClient('redlock-rs', {
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
  }),
  origin: {
    title: 'badboy/redlock-rs',
    language: 'rust',
    version: null,
    sources: [source('badboy/redlock-rs', '0ca2be37d9008ca0e33960d901213493e03c0bea', 'src/redlock.rs')],
    unknown: [],
    simplified: [],
  },
};

/** Clients in Go and Rust. */
export const GO_RUST: readonly KnownClient[] = [REDSYNC_2015, REDSYNC_2020, REDSYNC_4, RSLOCK, REDLOCK_RS];
