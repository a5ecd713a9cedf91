import { type Defect, EXCLUSION } from './defect.js';

/* What plain use, or one thing in its way, has shown, whatever the lock sends. */

/** A late answer is taken for that to a later command. */
export const MISTAKES_ANSWERS: Defect = {
  id: 'answer-of-another-command',
  sentence:
    'a command that has timed out is forgotten, and its late answer is taken for that to the next command on the connection: the OK of one SET that was given up is taken for the answer to another that Redis has refused, and two processes have the lock',
  fix: 'keep what has timed out in the queue and drop its answer when that comes, or close the connection',
  brings: EXCLUSION,
  property: 'mutual-exclusion',
  isShown: true,
};

/** A lock is remembered for longer than it lasts. */
export const REMEMBERS: Defect = {
  id: 'remembers-lock',
  sentence:
    'it remembers in memory that it has the lock, and does not look whether that has expired: long after the TTL a process that asks again is told that it has it, without a command to Redis, though another may have it by then',
  fix: 'remember until when the lock lasts, and ask again (or extend it) before that',
  brings: EXCLUSION,
  isShown: true,
};

/** Work goes on after its lock is lost. */
export const GOES_ON: Defect = {
  id: 'silent-loss',
  sentence:
    'it keeps its lock alive by itself, and its work is not told when that fails: its key has expired, another process has the lock, the extension is refused, and it goes on with the next step of its work all the same',
  fix: 'look whether the lock is lost before each step of the work, or hand the steps an AbortSignal',
  brings: ['belief', 'state', 'margin'],
  property: 'mutual-exclusion',
  isShown: true,
  takes: 'expired',
};

/** The key loses its TTL while it is held. */
export const DROPS_TTL: Defect = {
  id: 'drops-ttl',
  sentence:
    'while it is held, it sets its key again without a TTL (SET without PX or KEEPTTL): Redis forgets the TTL that the key had, and a process that dies after that leaves the key for ever',
  fix: 'SET … KEEPTTL, or set the TTL again (PX); better, keep what is not the lock under a key of its own',
  brings: ['lifetime', 'unavailable'],
  property: 'bounded-key-lifetime',
  isShown: true,
};
