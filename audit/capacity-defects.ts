import { type Commands, type Defect, EXCLUSION } from './defect.js';
import { SHARES_WATCH } from './shown-defects.js';
import type { FoundLock } from './understand.js';

const LOOKS: readonly string[] = ['get', 'zcard', 'zcount', 'scard', 'hlen', 'llen', 'exists', 'hget'];
const RANKS: readonly string[] = ['zrank', 'zrange', 'lpos', 'lindex'];

const COUNTS_REFUSED: Defect = {
  id: 'counts-refused',
  sentence:
    'an attempt that is refused has counted itself (INCR) and is never taken off again: with each one a permit is lost, and when all holders have left, nobody is let in before the TTL of the counter is over',
  fix: 'decrement where the count is over the limit, or count in a script that adds only where there is room; better an entry for each holder with its own end (ZADD)',
  brings: ['unavailable', 'leak', 'hang'],
  property: 'deadlock-free',
  isShown: true,
};
const COUNTS_WAITERS: Defect = {
  ...COUNTS_REFUSED,
  sentence:
    'an attempt that is refused leaves its entry in the sorted set (ZADD before the count), and adds it again each time it asks: those who wait count as holders, so that nobody of them is let in when all holders have left',
  fix: 'count in the script first (ZCARD), and add an entry only where there is room, or take it off again (ZREM) where there is none',
  brings: ['unavailable', 'leak', 'hang', 'belief', 'state'],
};

/** What is wrong with a lock that counts its holders. */
export function capacityDefects(
  { acquire, before, trial }: Commands,
  { how, seen: { capacity } }: Pick<FoundLock, 'how' | 'seen'>,
): Defect[] {
  const found: Defect[] = [];
  const { admits, named, countsRefused, countsWaiters } = capacity;
  if (named !== null)
    found.push({
      id: 'lets-in-more',
      sentence: `it lets in more than its limit: with nothing in its way, more than ${admits} ${admits === 1 ? 'holds' : 'hold'} it at once, which is the limit that the file names or is given; it compares the count by <= where < is meant, or counts before it has added its own`,
      fix: 'let a process in only while the count of the others is less than the limit',
      brings: EXCLUSION,
      isShown: true,
    });
  if (countsWaiters) found.push(COUNTS_WAITERS);
  else if (countsRefused) found.push(COUNTS_REFUSED);
  if (!how.counts && how.admits === 1) return found;
  if (trial.ttlMs === null && !trial.endsByValue && !capacity.endsByScore)
    found.push({
      id: 'no-ttl',
      sentence: `what counts its holders has no TTL${acquire === undefined ? '' : ` (${acquire.verb === 'script' ? 'by its script' : acquire.verb.toUpperCase()})`}: a process that crashes with its slot never gives it back, and after some crashes nobody gets one`,
      fix: 'an entry for each holder with its own end: ZADD with the time of the server, and ZREMRANGEBYSCORE before it is counted',
      brings: ['lifetime', 'unavailable'],
      property: 'bounded-key-lifetime',
      isShown: true,
    });
  const holders = how.admits === 1 ? 'two' : `more than ${how.admits}`;
  const looks = before.findLast(({ verb }) => LOOKS.includes(verb));
  const ranks = trial.sent.find(({ verb, key }) => RANKS.includes(verb) && key === trial.key);
  const add = acquire?.verb.toUpperCase() ?? '';
  const brings: Defect['brings'] = ['belief'];
  if (acquire === undefined || acquire.verb === 'script') {
    // What a script does is one step: what lets in too many is not known.
    found.push({ ...TOO_MANY, sentence: `${holders} hold it at once: ${TOO_MANY.sentence}`, brings, isShown: false });
  } else if (looks !== undefined && acquire.inMulti === true && before.some(({ verb }) => verb === 'watch'))
    found.push({ ...SHARES_WATCH, brings, isShown: false });
  else if (looks !== undefined)
    found.push({
      id: 'check-then-add',
      sentence: `it counts the holders and adds its own with a second command (${looks.verb.toUpperCase()}, then ${add}): of those that see the last free slot at once all get in, beyond the limit`,
      fix: 'count and add in one script, which is atomic',
      brings,
      isShown: false,
    });
  else if (ranks !== undefined)
    found.push({
      id: 'ranked-by-clock',
      sentence: `it adds its own with a time and asks for its rank by another command (${add}, then ${ranks.verb.toUpperCase()}): one that is added later with an earlier time comes before those that are in already, and ${holders} hold it at once`,
      fix: 'count and add in one script, with the time of the server',
      brings,
      isShown: false,
    });
  else
    found.push({ ...TOO_MANY, sentence: `${holders} hold it at once: ${TOO_MANY.sentence}`, brings, isShown: false });
  return found;
}

const TOO_MANY = {
  id: 'too-many-holders',
  sentence:
    'its count of the holders, or its end of a place, is not what the holders go by, as where one counter with one TTL stands for all, which expires or is decremented under them',
  fix: 'an entry for each holder with its own end (ZADD with the time of the server), counted and added in one script',
};
