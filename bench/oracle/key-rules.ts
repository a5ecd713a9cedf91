import { deviates, releasesInTurn } from '../../deviations/index.js';
import { finding, store } from './claim-rules.js';
import type { Finding } from './finding.js';
import { groupBy } from './group-by.js';
import type { Attempt, KeyChange, Lock, Sent, TraceIndex, TraceRef } from './trace-index.js';

/** A key is deleted or replaced by a command with another token, or deleted by a lock that has the same and did not set it. */
export function ownerOnlyRelease(record: TraceIndex): Finding[] {
  return record.keys.flatMap((change) => {
    const { how, token, cause, atUs } = change;
    if (how !== 'deleted' && how !== 'overwritten') return [];
    const by = Number(record.executions.get(cause)?.detail.token ?? 0);
    if (by === token) return foreignDeletion(record, change);
    const locks = [record.ownerOf(token), record.ownerOf(by)].filter((lock) => lock !== undefined);
    return [finding('owner-only-release', locks, atUs)];
  });
}

function foreignDeletion(record: TraceIndex, { seq, atUs, node, resource, token, cause }: KeyChange): Finding[] {
  const set = record.keysOf(token).findLast((it) => {
    return (
      it.how === 'set' && it.seq < seq && it.node === node && it.resource === resource && senderOf(record, it.cause)
    );
  });
  const [owner, other] = [senderOf(record, set?.cause), senderOf(record, cause)];
  if (owner === undefined || other === undefined || owner === other) return [];
  return [finding('owner-only-release', [owner, other], atUs)];
}

/** The lock whose command led to something. */
function senderOf(record: TraceIndex, cause: number | undefined): Lock | undefined {
  const command = record.executions.get(cause ?? -1)?.detail;
  return command === undefined ? undefined : record.lockOf(String(command.client), Number(command.lock));
}

/** A lock begins to ask with the token of another. */
export function oneLockPerToken(record: TraceIndex): Finding[] {
  const byToken = groupBy(attemptsInOrder(record), ({ token }) => token);
  return [...byToken.values()].flatMap((users) =>
    users.flatMap(({ lock, asked }, i) => {
      const before = users[i - 1]?.lock;
      const isForeign = before !== undefined && before !== lock;
      return isForeign ? [finding('one-lock-per-token', [before, lock], asked[0]?.atUs ?? 0)] : [];
    }),
  );
}

function attemptsInOrder({ locks }: TraceIndex): Attempt[] {
  return locks.flatMap((lock) => lock.attempts).sort((a, b) => (a.asked[0]?.seq ?? 0) - (b.asked[0]?.seq ?? 0));
}

/** An attempt begins with the token of another. */
export function uniqueToken(record: TraceIndex): Finding[] {
  return [...groupBy(attemptsInOrder(record), ({ token }) => token).values()].flatMap((users) =>
    users.slice(1).map((attempt, i) => {
      const before = users[i] as Attempt;
      return finding('unique-token', [before.lock, attempt.lock], attempt.asked[0]?.atUs ?? 0);
    }),
  );
}

/** Whether something is sent in the same step, and not by a timer that was set in it. */
function isAtOnce(sent: Sent, { seq, atUs }: TraceRef): boolean {
  return sent.cause === seq && sent.atUs === atUs;
}

/**
 * The moment from which a lock is released: its call of release, with the sends that follow from it at once; where they
 * are sent one after the other, the return of the call.
 */
function givenBack({ setup }: TraceIndex, lock: Lock): TraceRef | null {
  if (releasesInTurn(setup.policy)) return lock.released;
  const attempt = lock.attempts[lock.attempts.length - 1];
  const [call] = lock.releaseCalls;
  if (call === undefined || attempt === undefined) return null;
  const sends = attempt.released.filter((it) => isAtOnce(it, call));
  return sends[sends.length - 1] ?? null;
}

/** A lock is released, but not on every node that was asked for it. */
export function releaseToAll(record: TraceIndex): Finding[] {
  return record.locks.flatMap((lock) => {
    const end = givenBack(record, lock);
    const attempt = lock.attempts[lock.attempts.length - 1];
    if (end === null || attempt === undefined) return [];
    const released = new Set(attempt.released.filter(({ seq }) => seq <= end.seq).map(({ node }) => node));
    const left = attempt.asked.some(({ node }) => !released.has(node));
    return left ? [finding('release-to-all', [lock], end.atUs)] : [];
  });
}

/**
 * An attempt is over, and a key of it is on a node that was never sent a release, or comes to one later; or an extension
 * sets it after the release; or it comes after the release, and its client does nothing about it when it has heard of both.
 */
export function cleanup(record: TraceIndex): Finding[] {
  return record.locks.flatMap((lock) =>
    lock.attempts.flatMap((attempt, i) => {
      const next = lock.attempts[i + 1];
      const end = next?.asked[0] ?? lock.failed ?? givenBack(record, lock);
      if (end === null) return [];
      const keys = keysOf(record, attempt);
      const extended = keys.find((it) => it.seq > end.seq && isRevived(record, attempt, i, it))?.atUs ?? null;
      const found = [firstLeftOver(attempt, end, keys), extended, firstKept(attempt, end, keys)];
      const times = found.filter((it) => it !== null);
      return times.length === 0 ? [] : [finding('cleanup', [lock], Math.min(...times))];
    }),
  );
}

/** Whether an extension of attempt number `number` sets a key where a release was carried out. */
function isRevived(
  record: TraceIndex,
  { lock, emptied }: Attempt,
  number: number,
  { how, seq, node, cause }: KeyChange,
): boolean {
  const { policy } = record.setup;
  if (deviates(policy, 'extension-heals') && !deviates(policy, 'late-grants-stay')) return false;
  const { detail } = record.executions.get(cause) ?? {};
  if (how !== 'set' || detail?.operation !== 'extend' || Number(detail.attempt) !== number) return false;
  return senderOf(record, cause) === lock && emptied.some((it) => it.node === node && it.seq < seq);
}

/** What became of the keys of an attempt, until a later one begins to ask for the same with the same token: they are its own then. */
function keysOf(record: TraceIndex, { lock, token, asked }: Attempt): KeyChange[] {
  const from = asked[0]?.seq ?? 0;
  const later = record.attempts.filter((it) => it.token === token && (it.asked[0]?.seq ?? 0) > from);
  return lock.resources
    .flatMap((resource) => {
      const next = later.filter((it) => it.lock.resources.includes(resource)).map((it) => it.asked[0] as TraceRef);
      const [taken] = next.sort((a, b) => a.seq - b.seq);
      const all = record.keysOf(token).filter((it) => it.resource === resource);
      if (taken === undefined) return all;
      const own = all.filter(({ seq }) => seq < taken.seq);
      // Right after it began: an attempt of the same lock is the end of the one before.
      const gone = { seq: taken.seq + 0.5, atUs: taken.atUs, resource, token, how: 'taken', cause: -1 };
      return [...own, ...[...new Set(own.map(({ node }) => node))].map((node) => ({ ...gone, node }))];
    })
    .sort((a, b) => a.seq - b.seq);
}

/** When a client first knows that a key came after its release, and leaves it there. */
function firstKept(attempt: Attempt, end: TraceRef, keys: readonly KeyChange[]): number | null {
  const heard = attempt.heard.filter(({ seq }) => seq > end.seq);
  for (const { node, seq, atUs } of heard) {
    const sends = attempt.released.filter((it) => it.node === node && (it.seq < seq || isAtOnce(it, { seq, atUs })));
    const since = Math.max(-1, ...sends.map((it) => it.seq));
    const told = heard.filter((it) => it.node === node && it.seq <= seq);
    // What was heard before a release says nothing of what that will find.
    const known = new Set(told.filter((it) => it.seq > since).map(({ what }) => what));
    const knows = known.has('granted') && known.has('nothing') && !told.some(({ what }) => what === 'deleted');
    const there = keys.filter((it) => it.node === node && it.seq < seq);
    if (knows && comesLate(attempt, node, there, Math.max(end.seq, since))) return atUs;
  }
  return null;
}

/** Whether a node that carried out a release has set the key since a place of the trace, and has it still. */
function comesLate(attempt: Attempt, node: number, changes: readonly KeyChange[], fromSeq: number): boolean {
  const held = new Map<number, Set<string>>();
  for (const change of changes) store(held, change);
  const isLate = ({ how, seq }: KeyChange): boolean =>
    how === 'set' && seq > fromSeq && attempt.emptied.some((it) => it.node === node && it.seq < seq);
  return (held.get(node)?.size ?? 0) > 0 && changes.some(isLate);
}

function firstLeftOver(attempt: Attempt, end: TraceRef, keys: readonly KeyChange[]): number | null {
  const stored = new Map<number, Set<string>>();
  const mayHold = (node: number, seq: number): boolean =>
    attempt.released.some((it) => it.node === node && it.seq < Math.max(seq, end.seq + 1));
  let over = false;
  for (const change of [...keys, null]) {
    if (!over && (change === null || change.seq > end.seq)) {
      over = true;
      for (const [node, there] of stored) if (there.size > 0 && !mayHold(node, end.seq)) return end.atUs;
    }
    if (change === null) return null;
    store(stored, change);
    if (over && change.how === 'set' && !mayHold(change.node, change.seq)) return change.atUs;
  }
  return null;
}
