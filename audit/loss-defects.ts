import type { Defect } from './defect.js';
import { RELEASES_UNAWAITED } from './shown-defects.js';

/* What is wrong with what is done when a lock is lost, or when it has been released. */

/** Work goes on after its lock is lost. */
export const GOES_ON: Defect = {
  id: 'silent-loss',
  sentence:
    'it renews its lock by itself, and its work is not told when a renewal fails: its key has expired, another process has the lock, the renewal is refused, and it goes on with the next step of its work all the same',
  fix: 'look whether the lock is lost before each step of the work, or hand the steps an AbortSignal',
  brings: ['belief', 'state', 'margin'],
  property: 'mutual-exclusion',
  isShown: true,
  takes: 'expired',
};

/** The same where the work itself extends it. */
export const IGNORES_EXTENSION: Defect = {
  ...GOES_ON,
  sentence:
    'it extends its lock between the steps of its work, and does not look whether that was granted: where its key has expired and another process has the lock, the extension is refused, and it goes on with the next step all the same, though the lock is lost',
  fix: 'look at the result of each extension, and stop the work where it was refused',
};

/** It is no longer extended while its work goes on. */
export const STOPS_EXTENDING: Defect = {
  id: 'stops-extending',
  sentence:
    'it extends its lock for a while and then no longer, though its work goes on and nothing is in its way (as where an extension gives a new lock, and the old one is extended again): the key expires, another process gets the lock, and both work',
  fix: 'keep what each extension gives, and extend that; tell the work when an extension fails',
  brings: ['belief', 'state', 'margin'],
  property: 'mutual-exclusion',
  isShown: true,
  takes: 'expired',
};

/** The same of a lock of `redlock` 5 that its first extension has made useless. */
export const EXTENDS_OLD: Defect = {
  ...STOPS_EXTENDING,
  sentence:
    'it extends one lock again and again, though each extension of redlock gives a new lock and makes the old one useless: the second extension fails, so that its work is given up in the middle, or goes on when its key has expired and another process has the lock',
  fix: 'keep the lock that each extension gives, and extend and release that one',
};

/** The same where it is told too late. */
export const TOLD_LATE: Defect = {
  ...GOES_ON,
  sentence:
    'it renews its lock by itself, and its work is not told in time that the lock is lost when a renewal fails or is refused: the key expires, another process gets the lock, and both work',
  fix: 'count the time since the last extension that succeeded, and abort the work (AbortSignal) before the TTL is over',
};

/** The same of an election. */
export const LEADS_TOO_LONG: Defect = {
  ...TOLD_LATE,
  sentence:
    'it goes on as the leader when its lease is lost: a renewal that fails, or comes too late, does not end its term in time, its key expires, another process becomes the leader, and both work: there are two leaders',
  fix: 'end the term by the own clock, a TTL after the last renewal that was granted was sent, less a margin, and stop the work then',
};

/** The same after a pause. */
export const IGNORES_REFUSAL: Defect = {
  ...GOES_ON,
  sentence:
    'it goes on as the leader when its lease is lost: after a pause longer than its TTL another process leads, its renewal is refused, and it ignores that and works on, so there are two leaders',
  fix: 'look at the result of the renewal: where the key is no longer your own, end the term and stop the work',
};

/** Nothing is done under the lock. */
export const RELEASES_FIRST: Defect = {
  ...RELEASES_UNAWAITED,
  sentence:
    'it releases the lock before it begins its work: nothing is done between the two, as where await using ends with its block, and two processes work at once',
  fix: 'do the work before the release: in the block of the lock, or in its try block',
};
