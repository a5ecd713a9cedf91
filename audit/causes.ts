import { LONGEST_US } from '../core/index.js';
import { foreignDeletion, isOfLock } from '../libraries/frames.js';
import type { LibraryRun } from '../libraries/run.js';
import type { ViolationKind } from '../libraries/search/kinds.js';
import type { Violation } from '../properties/index.js';
import type { Schedule } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { seconds } from './words.js';

/** What is wrong, and what mends it. */
export interface Cause {
  /** Short, for programs. */
  readonly id: string;
  readonly sentence: string;
  readonly fix: string;
}

/** What a failure says of a lock of which the commands say nothing. */
const FAILURES: Readonly<Partial<Record<ViolationKind, Cause>>> = {
  acquisition: {
    id: 'over-when-given',
    sentence:
      'it does not look how much of the TTL is left when a majority has answered: it hands over a lock that is over already',
    fix: 'subtract the time since the first SET was sent, and an allowance for drift, from the TTL; release where nothing is left',
  },
  margin: {
    id: 'outlives-key',
    sentence:
      'it takes the lock for held for longer than its keys last for certain: the time that its commands took is not subtracted',
    fix: 'count the TTL from before the first command was sent',
  },
  leak: {
    id: 'leaves-key',
    sentence:
      'it leaves its key behind on nodes: after an attempt that has failed, or a release, it does not release all of them',
    fix: 'send the release to all nodes, whatever they have answered',
  },
};

const DELETES_OTHERS: Cause = {
  id: 'deletes-others',
  sentence: 'it deletes a key that another process has, without looking whose it is',
  fix: 'delete the key only where its whole value is your token, also where a failed try is taken back',
};
const DELETES_LATE: Cause = {
  id: 'deletes-others',
  sentence:
    "it deletes a key that another process has: its release runs when its own key has expired, and does not compare all that tells one lock from another's",
  fix: 'store a random token for each acquisition, and delete the key only where its whole value is that token',
};
const OVERWRITES: Cause = {
  id: 'overwrites',
  sentence: 'it overwrites the key of another process, which still works under it',
  fix: 'set the key only where there is none: SET key token NX PX ttl',
};
const NO_DRIFT: Cause = {
  id: 'outlives-key',
  sentence:
    'it takes the lock for held when its keys have expired: it counts on the whole TTL, and leaves no allowance for clocks that differ',
  fix: 'subtract an allowance for drift from the TTL: 1 % of it and 2 ms, as Redlock does',
};
const TOO_LONG: Cause = {
  id: 'outlives-key',
  sentence:
    'it takes the lock for held when its keys have expired: the time that its commands took is not subtracted from the TTL, so that its validity is too long',
  fix: 'count the TTL from before the first command was sent',
};
const HOLDS_ON: Cause = {
  id: 'outlives-key',
  sentence: 'it takes the lock for held when its keys have expired',
  fix: 'rely on the lock for no longer than its TTL, counted from before its command was sent, or from the last extension that succeeded',
};

/** What a process knows of a lock that one of its tasks has counts for the others. */
export const LETS_TASKS_IN: Cause = {
  id: 'lets-tasks-in',
  sentence:
    'it lets two tasks of one process in at once: what the process knows of its own lock counts for each caller in it, also for one that is no nested (reentrant) call of the one that has it',
  fix: 'have each acquisition take its own token, and refuse it where the key has another one',
};

const REUSES_TOKEN: Cause = {
  id: 'reused-token',
  sentence:
    'all tries of one acquisition store one token: what was sent to take an earlier try back arrives late, and deletes the key of a later one, which is held',
  fix: 'make a new token for each try, inside the loop',
};
const RELEASES_OTHER_TASK: Cause = {
  id: 'shared-state',
  sentence:
    'acquisitions of one process share state that each needs for itself, as the token of its release: the release of one deletes the key of another one, whose work continues',
  fix: 'keep the token with each acquisition: in a local variable, or in the object that it returns',
};
const RELEASES_WORKING: Cause = {
  id: 'releases-early',
  sentence:
    'it deletes its own key while its work goes on, as when a time limit is over: another process gets the lock, and both work',
  fix: 'release the lock when the work has ended; to give the work up before, tell it (AbortSignal), and wait until it has stopped',
};

const WATCH_SHARED: Cause = {
  id: 'lets-tasks-in',
  sentence:
    'it lets two tasks of one process in at once: they share one connection, on which the WATCH of one is over when the other sends EXEC or UNWATCH',
  fix: 'give each acquisition a connection of its own (duplicate()), or set the key with one command: SET key token NX PX ttl',
};
const WATCH_LOST: Cause = {
  id: 'overwrites',
  sentence:
    'it overwrites the key of another process: its WATCH is over when another acquisition on the same connection sends EXEC or UNWATCH, or when the client connects again',
  fix: 'give each acquisition a connection of its own (duplicate()), or set the key with one command: SET key token NX PX ttl',
};
const WATCH_OVER: Cause = {
  id: 'deletes-others',
  sentence:
    'it deletes a key that another process has: its WATCH is over when another call on the same connection sends EXEC or UNWATCH, and when the client connects again and repeats the transaction without it',
  fix: 'compare and delete in one script (EVAL); without scripts, release on a connection of its own that repeats nothing (ioredis: duplicate({ maxRetriesPerRequest: 0 }))',
};
const EXTENDS_OTHERS: Cause = {
  id: 'extends-others',
  sentence:
    'a process that has failed to get the key gives it a new TTL all the same: for as long as others ask, the key of a process that has died does not end',
  fix: 'give the key its TTL where it is set, and only there: SET key token NX PX ttl',
};
const EXTENDS_AS_OWN: Cause = {
  id: 'extends-others',
  sentence:
    'its extension does not look whether its own lock is still there: it gives the key a new TTL that another process has by now',
  fix: 'extend only where the key, or its member, is still your own, in one script; where it has gone, the lock is lost',
};
/** Of a lock that goes on though it has not got the key. */
export const WITHOUT_KEY: Cause = {
  id: 'fails-open',
  sentence:
    'it takes the lock for acquired though Redis has refused it the key, as when its tries or the time that it waits for are over: its work goes on beside that of the holder',
  fix: 'when the last try has failed, throw or return nothing; do no work',
};

/** The same by votes. */
export const NO_VOTE: Pick<Cause, 'sentence' | 'fix'> = {
  sentence:
    'it takes the lock though a majority of its nodes has refused it the key: a second process ran while the first one held it; an answer that refuses (null) counts as a vote',
  fix: 'count the answer OK alone: SET … NX answers null where the key is there',
};

/** The same where redlock throws, and that is caught: `_execute` of redlock 5, and `_lock` of redlock 4. */
export const GOES_ON_CAUGHT: Pick<Cause, 'sentence' | 'fix'> = {
  sentence:
    'it goes on without the lock where redlock throws, though another process holds the lock: redlock throws the same error (ExecutionError in version 5, which only emits ResourceLockedError, and LockError in version 4) for a lock that is taken as for nodes that cannot be reached',
  fix: 'do no work where the acquisition throws, whatever the error is',
};

/** Of a waiter that is told by nobody. */
export const WAITS_FOR_MESSAGE: Cause = {
  id: 'waits-for-message',
  sentence:
    'it waits for a message, without an end, and never asks again: one that was sent before it had subscribed is lost, and a holder that has died sends none; its caller hangs for ever',
  fix: 'subscribe first, then ask for the key again, and wait for the message for no longer than the TTL of the key',
};

/** Whether one of these clients waits to be told that the lock is free. */
function waitsForMessage(trace: readonly TraceEvent[], clients: readonly string[]): boolean {
  return trace.some(
    ({ kind, detail }) =>
      kind === 'execute' &&
      clients.includes(String(detail.client)) &&
      /^(?:[PS]?SUBSCRIBE|B[LR]POP|BLMOVE|XREAD)\b/i.test(String(detail.said)),
  );
}

/** Whether one of these clients believes that it holds what it has set no key for since it began to ask. */
function isWithoutKey(trace: readonly TraceEvent[], clients: readonly string[]): boolean {
  return clients.some((client) => {
    const claim = trace.findLast((it) => it.kind === 'claim' && it.process === client);
    const token = claim?.detail.token;
    return claim !== undefined && !trace.some((it) => it.kind === 'key-set' && it.detail.token === token);
  });
}

/** Whether a client that holds a lock has claimed it once more although Redis has only refused it the key since. */
function isRefused(trace: readonly TraceEvent[], client: string | undefined): boolean {
  const claims = trace.filter((it) => it.kind === 'claim' && it.process === client);
  const [one, other] = claims.slice(-2);
  const answers = trace
    .filter(({ kind, process, seq }) => kind === 'reply' && process === client && seq > (one?.seq ?? 0))
    .filter(({ seq, detail }) => seq < (other?.seq ?? 0) && detail.operation === 'acquire')
    .map(({ detail }) => detail.answer);
  return answers.includes('no') && !answers.includes('yes');
}

/** Whether one of these clients has watched what it set. */
function watchesIn(trace: readonly TraceEvent[], clients: readonly string[]): boolean {
  return trace.some(
    ({ kind, detail }) =>
      kind === 'execute' && clients.includes(String(detail.client)) && /^WATCH\b/i.test(String(detail.said)),
  );
}

/** The last key of one of these clients that has gone. */
export function lastGone(
  trace: readonly TraceEvent[],
  atUs: number,
  clients: readonly string[],
): TraceEvent | undefined {
  return trace.findLast(
    (it) =>
      it.atUs <= atUs && it.kind === 'key-gone' && clients.includes(String(it.detail.owner)) && isOfLock(it, trace),
  );
}

/** When a key was given its TTL: true time of request, execution and reply, µs; and that TTL, µs. */
interface Given {
  readonly sentUs: number;
  readonly doneUs: number;
  readonly answeredUs: number;
  readonly ttlUs: number;
}

/** The last command that gave a key its TTL before it expired. */
function lastTtlOf({ process, seq, atUs, detail }: TraceEvent, trace: readonly TraceEvent[]): Given | null {
  const given = trace.findLast(
    (it) =>
      /^key-(?:set|lengthened)$/.test(it.kind) &&
      it.process === process &&
      it.seq < seq &&
      it.detail.token === detail.token,
  );
  const done = given === undefined ? undefined : trace[given.cause];
  const sent = done === undefined ? undefined : trace[done.cause];
  const answer = trace.find(({ kind, cause }) => kind === 'reply' && trace[cause]?.cause === done?.seq);
  if (done === undefined || sent === undefined || answer === undefined) return null;
  const saidMs = Number(done.detail.ttlMs);
  return {
    sentUs: sent.atUs,
    doneUs: done.atUs,
    answeredUs: answer.atUs,
    ttlUs: saidMs > 0 ? saidMs * 1000 : atUs - done.atUs,
  };
}

/** Whether who acquires has removed what was over by then: the place of a holder in a sorted set. */
function isLapsed(gone: TraceEvent, by: TraceEvent, trace: readonly TraceEvent[]): boolean {
  const given = by.detail.operation === 'acquire' ? lastTtlOf(gone, trace) : null;
  return given !== null && gone.atUs - given.doneUs >= given.ttlUs;
}

/** When a belief by the clock ended, after its key had expired, µs; `null` for a belief without an end. */
function endOf({ detail: { owner }, atUs }: TraceEvent, trace: readonly TraceEvent[]): number | null {
  const over = trace.find((it) => it.kind === 'expired' && it.process === owner && it.atUs > atUs);
  if (over === undefined) return null;
  const said = trace.findLast(
    ({ kind, process, seq }) => (kind === 'claim' || kind === 'extended') && process === owner && seq < over.seq,
  );
  const saidUs = Number(said?.detail.endUs);
  if (!(saidUs < LONGEST_US)) return null;
  return saidUs > atUs ? Math.min(saidUs, over.atUs) : over.atUs;
}

/** Why a belief by the clock outlasted its key; `null` for a belief without an end, or if another reply came in between. */
function lateEndOf(gone: TraceEvent, trace: readonly TraceEvent[]): Cause | null {
  const endUs = endOf(gone, trace);
  const given = lastTtlOf(gone, trace);
  if (endUs === null || given === null) return null;
  const { sentUs, answeredUs, ttlUs } = given;
  const isOther = ({ kind, process, atUs, detail }: TraceEvent): boolean =>
    kind === 'reply' &&
    process === gone.detail.owner &&
    atUs > answeredUs &&
    atUs < endUs &&
    (detail.operation === 'acquire' || detail.operation === 'extend');
  if (trace.some(isOther)) return null;
  if (endUs - answeredUs <= ttlUs) return TOO_LONG;
  const inWords = (us: number): string => seconds(Math.round(us / 1000));
  return {
    id: 'outlives-key',
    sentence: `its key lives for ${inWords(ttlUs)}, and it takes the lock for held for ${inWords(endUs - sentUs)} from when it asks: between the two, another process gets the lock, and both work`,
    fix: 'count from the TTL that the key is given, as it is sent (EX takes whole seconds), from before its command was sent',
  };
}

/** Whether a client held the lock, and lost its key, before this time. */
function hasHeld(trace: readonly TraceEvent[], atUs: number, [client]: readonly string[]): boolean {
  const claim = trace.find((it) => it.kind === 'claim' && it.process === client && it.atUs <= atUs);
  const gone = lastGone(trace, atUs, [client ?? '']);
  return claim !== undefined && gone !== undefined && gone.seq > claim.seq;
}

/** How long it took from the command that set a key until its lock was held, µs. */
function timeOfCommands({ process, detail }: TraceEvent, trace: readonly TraceEvent[]): number {
  const event = (seq: number | undefined): TraceEvent | undefined => trace.find((it) => it.seq === seq);
  const set = trace.findLast(
    (it) => it.kind === 'key-set' && it.process === process && it.detail.token === detail.token,
  );
  const sent = event(event(set?.cause)?.cause);
  const claim = trace.find((it) => it.kind === 'claim' && it.process === detail.owner && it.seq > (set?.seq ?? 0));
  return sent === undefined || claim === undefined ? 0 : claim.atUs - sent.atUs;
}

/** Why a holder has deleted its own key; `null` where it has not. */
function ownDeletion({ cause, detail, process, seq }: TraceEvent, trace: readonly TraceEvent[]): Cause | null {
  const by = trace[cause];
  if (by === undefined || by.detail.client !== detail.owner) return null;
  const sent = trace[by.cause];
  const set = trace.findLast(
    (it) => it.kind === 'key-set' && it.process === process && it.seq < seq && it.detail.token === detail.token,
  );
  if (sent === undefined || set === undefined) return null;
  const own = trace.find((it) => it.kind === 'claim' && it.detail.token === detail.token);
  const called = trace.findLast((it) => it.kind === 'release-call' && it.process === detail.owner && it.seq < sent.seq);
  if (own !== undefined && called !== undefined && called.detail.lock !== own.detail.lock) return RELEASES_OTHER_TASK;
  const ofToken = (it: TraceEvent, operation: string): boolean =>
    it.kind === 'execute' &&
    it.detail.client === detail.owner &&
    it.detail.operation === operation &&
    it.detail.token === detail.token;
  if (trace.filter((it) => it.process === process && ofToken(it, 'acquire')).length < 2) return RELEASES_WORKING;
  // A try was taken back before the lock was given.
  const claim = trace.findLast((it) => it.kind === 'claim' && it.process === detail.owner && it.seq < seq);
  const isTakenBack = trace.some(
    (it) => ofToken(it, 'release') && (trace[it.cause]?.seq ?? it.seq) < (claim?.seq ?? 0),
  );
  return sent.seq < set.seq || isTakenBack ? REUSES_TOKEN : RELEASES_WORKING;
}

/** Whether the cause is a belief by the clock that outlasted its key. */
export function isOfEnd({ id }: Cause, { atUs, clients }: Violation, { run }: LibraryRun): boolean {
  const gone = lastGone(run.trace, atUs, clients);
  return id === 'outlives-key' && gone !== undefined && lateEndOf(gone, run.trace) !== null;
}

/** How a command overwrites the key of another process: perhaps when its client was woken. */
function overwrites({ seq, detail: { client, said } }: TraceEvent, trace: readonly TraceEvent[]): Cause {
  const earlier = trace.filter((it) => it.kind === 'execute' && it.detail.client === client && it.seq < seq);
  const [, wait] = /^(B[LR]POP|BLMOVE|SUBSCRIBE)\b/i.exec(String(earlier.at(-1)?.detail.said)) ?? [];
  if (wait === undefined || !/^SET /i.test(String(said)) || / NX\b/i.test(String(said))) return OVERWRITES;
  return {
    ...OVERWRITES,
    sentence: `it overwrites the key of another process, which still works under it: a client that is woken (${wait.toUpperCase()}) sets the key without looking whether it is free (SET without NX)`,
  };
}

/** What a failure says of a lock, by its kind and by what its run shows; `null` where that is not known. */
export function causeOf(
  kind: ViolationKind,
  { atUs, clients, property }: Violation,
  { run }: LibraryRun,
  { cluster }: Schedule,
): Cause | null {
  if (property === 'owner-only-release') return hasHeld(run.trace, atUs, clients) ? EXTENDS_AS_OWN : EXTENDS_OTHERS;
  if (kind === 'hang' && waitsForMessage(run.trace, clients)) return WAITS_FOR_MESSAGE;
  if (kind !== 'belief' && kind !== 'state') return FAILURES[kind] ?? null;
  const before = run.trace.filter((it) => it.atUs <= atUs);
  if (kind === 'belief' && clients[0] === clients[1]) {
    if (isRefused(before, clients[0])) return WITHOUT_KEY;
    return watchesIn(before, clients) ? WATCH_SHARED : LETS_TASKS_IN;
  }
  if (kind === 'belief' && isWithoutKey(before, clients)) return WITHOUT_KEY;
  const foreign = foreignDeletion(before);
  const gone = lastGone(run.trace, atUs, clients);
  const isOver = foreign !== undefined && isLapsed(foreign.gone, foreign.by, before);
  if (foreign !== undefined && !isOver && (gone?.detail.how === 'deleted' || gone?.detail.how === 'overwritten')) {
    if (foreign.gone.detail.how === 'overwritten' || gone.detail.how === 'overwritten')
      return String(foreign.by.detail.said).startsWith('MULTI;') ? WATCH_LOST : overwrites(foreign.by, before);
    const by = String(foreign.by.detail.client);
    if (String(foreign.by.detail.said).startsWith('MULTI;') && watchesIn(before, [by])) return WATCH_OVER;
    const itsOwn = lastGone(run.trace, atUs, [by]);
    return itsOwn?.detail.how === 'expired' ? DELETES_LATE : DELETES_OTHERS;
  }
  if (gone?.detail.how === 'deleted' && !isOver) return ownDeletion(gone, run.trace);
  if (gone?.detail.how !== 'expired' && !isOver) return null;
  if (gone === undefined) return null;
  if (cluster.clocks.some(({ ratePpm }) => ratePpm !== 0)) return NO_DRIFT;
  const late = cluster.nodes === 1 ? lateEndOf(gone, run.trace) : null;
  return late ?? (atUs - gone.atUs <= timeOfCommands(gone, before) ? TOO_LONG : HOLDS_ON);
}
