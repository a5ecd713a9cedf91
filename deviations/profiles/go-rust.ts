import { type Policy, policyOfClient } from '../policy.js';
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
