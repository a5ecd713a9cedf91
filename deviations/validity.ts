import { exactAllowance, LONGEST_US, later, localTime, type Won } from '../core/index.js';
import { type Deviation, numbered, replaces, wraps } from './deviation.js';

const SECOND_US = 1_000_000;

/** As a clock shows it that is cut to whole multiples of `us`. */
const cut = (at: number, us: number): number => Math.floor(at / us) * us;

/** From when and how long a lock is valid, and how its owner hears of the end. */
export const VALIDITY: Readonly<Record<string, Deviation>> = {
  'drift-unrounded': replaces('allowance', 'the drift allowance is not rounded up to whole ms', exactAllowance),
  'drift-added': wraps('allowance', 'the drift allowance is added to the validity', (below) => (ttlUs, drift) => {
    return below.allowance(ttlUs, { driftPpm: -drift.driftPpm, driftUs: -drift.driftUs });
  }),
  'drift-constant-added': wraps(
    'allowance',
    'the part of the drift allowance that does not depend on the TTL is added to the validity',
    (below) => (ttlUs, drift) => below.allowance(ttlUs, { ...drift, driftUs: -drift.driftUs }),
  ),

  'counts-from-call': from('acquire', 'validity counts from the first attempt', (won) => won.calledAt),
  'counts-from-reply': from('acquire', 'validity counts from the last answer', (won) => won.now),
  'extension-counts-from-reply': from('extend', 'a new validity counts from the last answer', (won) => won.now),

  'stamps-us': numbered(
    'left',
    'what is left is the difference of stamps cut to so many µs',
    [1, SECOND_US],
    (us) => (won, begun) => won.ttlUs - won.allowanceUs - (cut(won.now, us) - cut(begun, us)),
  ),
  'validity-unsigned': wraps('left', 'less than nothing left is taken for very much', (below) => (won, begun) => {
    const left = below.left(won, begun);
    return left < 0 ? LONGEST_US : left;
  }),
  'zero-is-valid': replaces('enough', 'a validity of nothing is enough', (leftUs, { minValidityUs }) => {
    return leftUs >= 0 && leftUs >= minValidityUs;
  }),
  'validity-unchecked': replaces('enough', 'nobody looks at what is left', () => true),
  'extension-unchecked': wraps(
    'enough',
    'nobody looks at what an extension leaves',
    (below) => (leftUs, settings, round) => round === 'extend' || below.enough(leftUs, settings, round),
  ),

  // A client that compares truncated timestamps sees the end at the first one that is not before it.
  'deadline-stamps-us': numbered(
    'deadline',
    'the deadline is looked at through stamps cut to so many µs',
    [1, SECOND_US],
    (us) => (won, begun) => {
      return localTime(Math.ceil(later(localTime(cut(begun, us)), won.ttlUs - won.allowanceUs) / us) * us);
    },
  ),
  'deadline-counted-after-us': numbered(
    'deadline',
    'the owner is told what is left, and begins to count it so many µs after the last answer',
    [0, LONGEST_US],
    (us) => (won, _begun, leftUs) => later(won.now, leftUs + us),
  ),
  'deadline-whole-ttl': replaces('deadline', 'the owner counts the whole TTL from the grant', ({ now, ttlUs }) =>
    later(now, ttlUs),
  ),
  'no-alarm': replaces('alarm', 'no timer tells the owner of the end', () => null),
};

function from(round: Won['round'], says: string, begin: (won: Won) => Won['now']): Deviation {
  return wraps('from', says, (below) => (won) => (won.round === round ? begin(won) : below.from(won)));
}
