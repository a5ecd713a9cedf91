import { type Defect, EXCLUSION } from './defect.js';
import type { Said } from './said.js';
import type { Trial } from './trial.js';
import { seconds } from './words.js';

/* What plain use, or one thing in its way, has shown, whatever the lock sends. */

/** A late answer is taken for that to a later command. */
export const MISTAKES_ANSWERS: Defect = {
  id: 'answer-of-another-command',
  sentence:
    'a command that has timed out is forgotten, and its late reply is taken for that to the next command on the connection: the OK of one SET that was given up is taken for the reply to another that Redis has refused, and two processes have the lock',
  fix: 'keep what has timed out in the queue and drop its reply when that comes, or close the connection',
  brings: EXCLUSION,
  property: 'mutual-exclusion',
  isShown: true,
};

/** What was done under the lock is not to be seen by the next holder. */
export const RELEASES_UNCOMMITTED: Defect = {
  id: 'released-before-commit',
  sentence:
    'it takes and releases the lock within a database transaction: between the release and the commit another process gets the lock, does not see what this one has written, and overwrites it',
  fix: 'take the lock before the transaction begins, and release it after the commit',
  brings: EXCLUSION,
  property: 'mutual-exclusion',
  isShown: true,
};

/** A request whose work has failed is taken for done. */
export const LOSES_FAILED: Defect = {
  id: 'kept-on-error',
  sentence:
    'it keeps its key when the work fails, and answers with an error: when the request is sent again, the answer is that of a duplicate (2xx), and the work is never done',
  fix: 'delete the key where the work has failed, and store that it is done only then',
  brings: [],
  property: 'bounded-key-lifetime',
  isShown: true,
};

/** The same of a message, which is given back to its queue. */
export const LOSES_MESSAGE: Defect = {
  ...LOSES_FAILED,
  sentence:
    'it keeps its key when the work of a message fails: when the message is redelivered, it is taken for a duplicate and acknowledged, and the work is never done',
};

/** A message is acknowledged though its lock is another's. */
export const DROPS_BUSY: Defect = {
  ...LOSES_FAILED,
  id: 'drops-busy',
  sentence:
    'it acknowledges a message whose lock it has not got, as another process has it: the message is never delivered again, and its work is never done',
  fix: 'acknowledge a message when its work is done; give one whose lock is busy back to its queue (nack, a delay), or leave it pending and claim it later (XAUTOCLAIM)',
};

/** The same of a job. */
export const DROPS_BUSY_JOB: Defect = {
  ...DROPS_BUSY,
  sentence:
    'it returns as if the job were done where it has not got the lock, as another process has it: the queue marks the job as completed and never tries it again, and what it brings is lost',
  fix: 'throw where the lock is busy, so that the job is tried again, or move it (job.moveToDelayed and DelayedError)',
};

/** A key that is kept when a job fails, which its queue tries again. */
export const LOSES_JOB: Defect = {
  ...LOSES_FAILED,
  sentence:
    'it sets its key before the job is done, and keeps it when the job fails: when the job is tried again, the key is there, the job is skipped, and it is never done',
};

/** What says that work is done. */
export const IS_DONE: RegExp = /done|complete|success|finish|processed|handled/i;

/** A mark that work is done ends with the key of the claim. */
export function forgetting(mark: string, ttlMs: number): Defect {
  return {
    id: 'forgets-done',
    sentence: `it stores in its key that its work is done (${JSON.stringify(mark)}) and keeps the TTL of the claim (KEEPTTL, ${seconds(ttlMs)}): when the same request is delivered again after that, the key has expired, and the work is done a second time`,
    fix: 'store that it is done with a TTL of its own, longer than anybody sends the request again',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** A lock is remembered for longer than it lasts. */
export const REMEMBERS: Defect = {
  id: 'remembers-lock',
  sentence:
    'it remembers in memory that it has the lock, and does not look whether that has expired: long after the TTL a process that asks again is told that it has it, without a command to Redis, though another may have it by then',
  fix: 'remember until when the lock lasts, and ask again (or extend it) before that',
  brings: EXCLUSION,
  isShown: true,
};

/** Calls of one process watch over one connection. */
export const SHARES_WATCH: Defect = {
  id: 'shared-watch',
  sentence:
    'all calls of a process send WATCH and EXEC over one shared connection: the EXEC (or UNWATCH) of one call ends the WATCH of another, whose transaction then succeeds though the watched key has changed in between, and both have taken it',
  fix: 'use a connection of its own for each transaction (duplicate(), a pool), or do it in one script',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

/** Calls of one object overwrite each other's token. */
export const SHARES_TOKEN: Defect = {
  id: 'shared-state',
  sentence:
    "calls of one process share a field that ought to be each one's own, the token of its release: a second call that waits for the lock overwrites the token of the first, whose release then deletes nothing, and nobody gets the lock until its TTL is over",
  fix: 'keep the token with each call: in a local variable, or in what the acquisition returns',
  brings: ['leak'],
  property: 'bounded-key-lifetime',
  isShown: true,
};

/** The same where the calls are about different things. */
export const SHARES_TOKEN_OF_THINGS: Defect = {
  ...SHARES_TOKEN,
  sentence:
    "calls of one process share a field that ought to be each one's own, what its release needs: a second call, for another resource, overwrites that of the first, which then releases the lock of the second, whose work goes on, and leaves its own key until its TTL is over",
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

/** Two calls wait for each other. */
export const LOCKS_AS_CALLED: Defect = {
  id: 'locks-as-called',
  sentence:
    'takes the locks of two of its arguments in the order of its call: two calls with the same two the other way round (from a to b, and from b to a) take them in opposite orders, each has one and waits for the other, and both are in a deadlock until they give up or a TTL is over',
  fix: 'sort the keys by an order that all calls share (comparing the texts themselves: the difference of two texts is NaN), and take them in that order',
  brings: ['unavailable', 'hang'],
  property: 'deadlock-free',
  isShown: true,
};

/** The work goes on when the lock has been released. */
export const RELEASES_UNAWAITED: Defect = {
  id: 'releases-early',
  sentence:
    'it releases the lock before its own work is done: it returns the promise of the work without awaiting it, or begins it in forEach, so that finally or await using releases while the work is still running, and another process gets the lock',
  fix: 'return await work(…), or await it before the lock is released',
  brings: EXCLUSION,
  property: 'mutual-exclusion',
  isShown: true,
  takes: 'deleted',
};

/** It has a time limit, of which its work does not know. */
export const GIVES_UP_ALONE: Defect = {
  ...RELEASES_UNAWAITED,
  sentence:
    'it gives its work up at a time limit (as by Promise.race) and releases the lock, and nothing stops the work: that goes on without the lock, beside that of the next process',
  fix: 'hand the work an AbortSignal, and release the lock when the work has ended',
};

/** An acquisition that has given up gets the lock, and keeps it. */
export const KEEPS_LATE_GRANT: Defect = {
  id: 'keeps-late-grant',
  sentence:
    'an acquisition that has given up (its timeout is over, and its caller is told so) goes on asking: it gets the lock later, extends it, and nobody ever releases it, so that nobody else gets it for as long as the process lives',
  fix: 'stop the loop that asks when the time is over (a flag, an AbortSignal; Promise.race stops nothing), and release what it gets after that',
  brings: ['unavailable', 'leak', 'hang'],
  property: 'deadlock-free',
  isShown: true,
};

/** The same of one that is not extended. */
export const KEEPS_ORPHAN: Defect = {
  ...KEEPS_LATE_GRANT,
  sentence:
    'an acquisition that has given up (its timeout is over, and its caller is told so) goes on asking: it gets the lock later, nobody knows that, and nobody releases it, so that nobody else gets it before its TTL has passed',
};

/** Its work goes on in part when it has failed. */
export const RELEASES_BESIDE: Defect = {
  id: 'releases-early',
  sentence:
    'it does several parts of its work at once (Promise.all), and where one of them fails it releases the lock at once, while the others are still under way: another process gets the lock beside them',
  fix: 'await all parts before the release, whatever became of each (Promise.allSettled), or tell the others to stop and await that',
  brings: EXCLUSION,
  property: 'mutual-exclusion',
  isShown: true,
};

/** An extension is taken for done that was refused. */
export const UNHEEDED: Defect = {
  id: 'extension-unheeded',
  sentence:
    'it ignores the reply to its extension, and takes for done what Redis has refused: its key has expired and another process has the lock, and it says that it holds it, beside the new holder',
  fix: 'where the extension says that the key has gone, the lock is lost for good: do not move its end on, and tell the work',
  brings: EXCLUSION,
  isShown: true,
  takes: 'expired',
};

/** The same where it sets its key again, also where another process has it. */
export const OVERWRITES_LOST: Defect = {
  ...UNHEEDED,
  id: 'revives-lock',
  sentence:
    'its extension sets the key again (SET without NX), also where its own has expired and another process has the lock: it overwrites the key of that one, and both go on',
  fix: 'extend the key only where it still has your token, in one script; where it has gone, the lock is lost for good',
  takes: 'overwritten',
};

/** The same where the answer says nothing. */
export const UNHEEDED_XX: Defect = {
  ...UNHEEDED,
  sentence:
    'it judges its extension by the answer of ZADD XX, which is 0 whether or not the member was there (without CH): a holder whose place has lapsed and gone to another process takes it for extended, and says that it holds the lock, beside the new holder',
  fix: 'look whether the member is there (ZSCORE) in the same script and return that, or ZADD … XX CH with a score that changes; where it has gone, the lock is lost for good',
};

/** What an earlier lock has begun is let in without one. */
export const REENTERS: Defect = {
  id: 'reenters-without-lock',
  sentence:
    'it takes a call for nested (reentrant) whose outer lock has been released: what the work has begun and nobody awaits inherits its AsyncLocalStorage, is let in without asking Redis, and works beside the process that has the lock by then',
  fix: 'mark what the storage holds as over when the lock is released, and let nobody in by it after that; await what the work begins',
  brings: EXCLUSION,
  isShown: true,
};

/** A request that the client has given up is still worked on. */
export const RELEASES_HUNG_UP: Defect = {
  id: 'releases-early',
  sentence:
    "it releases the lock on 'close' of the response, which also comes when the client disconnects while the handler still works: the next request gets in beside it, and nothing tells the handler",
  fix: "release when the handler has ended; or tell it on 'close' that the lock is over, so that it stops",
  brings: EXCLUSION,
  isShown: true,
  takes: 'deleted',
};

/** A release deletes what it no longer watches. */
export const DELETES_UNWATCHED: Defect = {
  id: 'deletes-others',
  sentence:
    'its release watches the key (WATCH) on a connection that other releases of the process share: EXEC or UNWATCH of one ends the WATCH of all, and the other deletes its key without it, though that has expired and is held by another process',
  fix: 'compare and delete in one step (a Lua script, or DELEX … IFEQ), or give each release a connection of its own (duplicate())',
  brings: EXCLUSION,
  isShown: true,
  takes: 'deleted',
};

/** It looks whether the work is done before it has the lock, and not again. */
export const LOOKS_BEFORE: Defect = {
  id: 'looks-before-lock',
  sentence:
    'it looks whether its work has been done only before it has the lock, and not again inside: one that has read that before another has done the work and marked it gets the lock after that, and does the work a second time',
  fix: 'look again when the lock is held, or look for the mark and set the key in one script',
  brings: EXCLUSION,
  property: 'mutual-exclusion',
  isShown: true,
};

/** A call that has no lock releases that of another one. */
export const RELEASES_REFUSED: Defect = {
  id: 'refused-release',
  sentence:
    'a call that was refused the lock releases it all the same, as in a finally block around the acquisition: another call of its process holds it and still works, its key is deleted, and another process gets in beside it',
  fix: 'release only what this call has acquired: acquire before the try block, or keep the token in a variable of the call',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

/** @param mark - What a function stores in its key. */
export function marksAsDone(name: string, mark: string): Defect {
  return {
    id: 'marks-undone',
    sentence: `${name} stores ${JSON.stringify(mark)} in its key where its work has failed, as where that is done: who tries again is told that it was done, and it never is`,
    fix: 'store that when the work has succeeded alone, and delete the key where it has failed',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** @param key - That says that work is done, and is stored before that. */
export function marksBefore(key: string): Defect {
  return {
    id: 'marks-undone',
    sentence: `it stores the mark that its work is done (${key}) before it does that, and keeps the mark when the work fails: who tries again is told that it was done, and it never is`,
    fix: 'store the mark when the work has succeeded, or delete it where the work has failed',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** What adds a member to a set. */
const ADDS_MEMBER = /\b[zs]add\b/i;

/**
 * Of all acquisitions of a process, which store one value.
 *
 * @param by - The acquisition that has stored it. Default: one that adds no member to a set.
 * @param textOf - The text of a script that it has sent.
 */
export function valueOfProcess(
  value: string,
  by?: Pick<Trial, 'sent' | 'key'>,
  textOf?: (said: Said) => string,
): Defect {
  const own = by?.sent.filter(({ key }) => key === by.key) ?? [];
  const isMember = own.some((it) => ADDS_MEMBER.test(`${it.verb} ${textOf?.(it)}`));
  const follows = isMember
    ? 'as where all its calls share one object with one identifier: they are one member of the set, so that any number of them takes one place, and the release of one frees the place of all'
    : 'so that the release of one whose key has expired deletes the key of the next';
  return {
    id: 'value-of-process',
    sentence: `all acquisitions of one process store the same value (${JSON.stringify(value.slice(0, 40))}), ${follows}`,
    fix: `${isMember ? 'make an object for each acquisition, or ' : ''}store a random token for each acquisition, and compare it on release`,
    brings: EXCLUSION,
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** What a process knows of its own lock counts for each of its calls. */
export const LETS_CALLS_IN: Defect = {
  id: 'lets-tasks-in',
  sentence:
    'two calls in one process work at once: the second one takes the key of the first one for its own, as all calls of a process store one token, or share what they know of the lock',
  fix: 'have each call take its own token, and refuse it where the key has another one',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

/**
 * Two calls of a function change one value, each under a lock of its own.
 *
 * @param key - Of the value.
 * @param locks - Of both calls.
 * @param names - What the lock is named after, and the value is not.
 */
export function keyTooNarrow(name: string, key: string, locks: readonly string[], names: readonly string[]): Defect {
  const after = names.join(' and ');
  return {
    id: 'locks-apart',
    sentence: `two calls of ${name} both read ${key} and store a new value, but take different locks for it (${locks.join(' and ')}), as its lock is named after ${after} too: while one is between reading and storing, the other changes the value, and that change is overwritten`,
    fix: `name the lock after the data alone (${key}), without ${after}; or change the value by one atomic command or script that reads it itself`,
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/**
 * Two calls that spell a name otherwise take two locks for one thing.
 *
 * @param name - Of the function.
 * @param used - What both use under their locks.
 * @param locks - Of both calls.
 */
export function spelledApart(name: string, used: string, locks: readonly string[]): Defect {
  return {
    id: 'locks-apart',
    sentence: `two calls of ${name} whose names differ only in case (lower and upper) use the same data (${used}), but take different locks for it (${locks.join(' and ')}): its lock is named after the name as it is given, and the data after that in one case, so that both work on it at the same time`,
    fix: 'bring the name into one case before the lock is asked for, and name the lock after that',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** After the name of a function, and of a key. */
export const STALE_READ: Defect = {
  id: 'reads-before-lock',
  sentence:
    'before it has the lock, and under the lock stores what it has made of that stale value: where another process changes the value in between, that change is overwritten',
  fix: 'read the value when the lock is held, or change it by one atomic command or script that reads it itself',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};
