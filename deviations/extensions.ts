import type { AfterFailure } from '../core/index.js';
import { type Deviation, replaces, wraps } from './deviation.js';

const LOSS: readonly AfterFailure[] = ['notice'];
const RELEASE: readonly AfterFailure[] = ['release'];
const GIVE_UP: readonly AfterFailure[] = ['release', 'give-up'];

function afterFailure(says: string, more: readonly AfterFailure[]): Deviation {
  return wraps('afterFailure', says, (below) => (late) => below.afterFailure(late).concat(more));
}

/** What an extension may do, and what follows when it fails. */
export const EXTENSIONS: Readonly<Record<string, Deviation>> = {
  'extends-late': replaces('mayExtend', 'a lock that is over can be extended', () => true),
  'extends-if-begun-in-time': replaces(
    'mayExtend',
    'an extension that begins in time may end late',
    (late, at) => at === 'end' || !late,
  ),
  'loss-noticed-at-failure': wraps(
    'afterFailure',
    'the owner hears that the lock is over when an extension fails after it',
    (below) => (late) => (late ? LOSS.concat(below.afterFailure(late)) : below.afterFailure(late)),
  ),
  'failure-releases': afterFailure('a failed extension deletes the keys, and the owner goes on', RELEASE),
  'failure-gives-up': afterFailure('a failed extension deletes the keys and ends the lock', GIVE_UP),
  'no-late-auto-extension': replaces(
    'autoExtend',
    'no automatic extension where it is late for one',
    (due, earliest) => (due < earliest ? null : due),
  ),
};
