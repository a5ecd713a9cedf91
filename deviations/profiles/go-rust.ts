import type { Policy } from '../policy.js';
import { between, NOT_EXTENDED, parallel, sequential, upTo } from './shape.js';

/** hjr265/redsync.go: the constant part of the allowance is added to the validity instead of taken from it. */
const REDSYNC_2015: Policy = sequential('redsync-2015', {
  ...NOT_EXTENDED,
  clock: 'monotonic',
  driftUs: -2_000,
  tries: 16,
  ...between(512, 512),
  pausesAfterLast: true,
});

/** Extensions count every answer but an error as a yes (issue 61), and are not looked at for what is left (issue 71). */
const REDSYNC_2020: Policy = parallel('redsync-2020', {
  clock: 'monotonic',
  driftUs: 0,
  tries: 32,
  ...between(500, 500),
  givesUpOn: 'errors',
  extendReadAs: 'yes',
  extensionCheck: 'none',
});

const REDSYNC_4: Policy = parallel('redsync-4', {
  nodeTimeoutUs: 400_000,
  clock: 'monotonic',
  driftUs: 0,
  tries: 32,
  ...between(50, 250),
  releaseRule: 'deleted',
});

/** Gives up without a clean-up where the votes came too late; a failed extension deletes the keys of a lock that goes on. */
const RSLOCK: Policy = parallel('rslock', {
  clock: 'monotonic',
  deadline: 'relative',
  tries: 3,
  ...upTo(200),
  givesUpOn: 'too-slow',
  extendOnFail: 'release',
  autoExtendLate: 'never',
  lossSignal: 'after-reply',
});

/** Validity is an unsigned number: in a release build, less than nothing wraps around to very much. */
const REDLOCK_RS: Policy = sequential('redlock-rs', {
  ...NOT_EXTENDED,
  clock: 'monotonic',
  deadline: 'relative',
  validityCheck: 'unsigned',
  tries: 3,
  ...upTo(200),
  pausesAfterLast: true,
});

/** Clients in Go and Rust. */
export const GO_RUST: readonly Policy[] = [REDSYNC_2015, REDSYNC_2020, REDSYNC_4, RSLOCK, REDLOCK_RS];
