import { deviates, hasFencingTokens } from '../../deviations/index.js';
import { finding } from './claim-rules.js';
import type { Finding } from './finding.js';
import type { Lock, TraceIndex, Turn } from './trace-index.js';

/** A lock that was claimed, with what it shows to the resource. */
interface Issued {
  readonly lock: Lock;
  readonly turn: Turn;
}

/** Negative, 0 or positive, as the one comes before, is the same as, or comes after the other. */
type Order = (a: Turn, b: Turn) => number;

function orderOf({ setup }: TraceIndex): Order {
  // A counter and the token of the attempt, or a counter alone.
  const isPair = !deviates(setup.policy, 'grants-count', 'fence-without-token');
  return (a, b) => a.counter - b.counter || (isPair ? a.token - b.token : 0);
}

/**
 * Tokens of one resource, each compared with all that came before it: none twice, and none that is as low as one that was
 * there when its client began to ask. And the writes in the order in which they came, each against the highest so far.
 */
export function fencing(record: TraceIndex): Finding[] {
  if (!hasFencingTokens(record.setup.policy)) return [];
  return [...issuing(record), ...writing(record), ...losing(record)];
}

/** Locks that fail because too few nodes know their counter. */
function losing({ locks }: TraceIndex): Finding[] {
  return locks.flatMap((lock) =>
    lock.failed?.reason === 'counters-lost' ? [finding('fencing', [lock], lock.failed.atUs)] : [],
  );
}

function issuing(record: TraceIndex): Finding[] {
  const order = orderOf(record);
  const all = record.locks
    .flatMap((lock) => lock.turns.filter(({ kind }) => kind === 'claim').map((turn) => ({ lock, turn })))
    .sort((a, b) => a.turn.seq - b.turn.seq);
  return all.flatMap((issued, i) => {
    const other = issued.lock.resources
      .flatMap((resource) => all.slice(0, i).filter(({ lock }) => lock.resources.includes(resource)))
      .find((it) => isWrong(issued, it, order));
    return other === undefined ? [] : [finding('fencing', [other.lock, issued.lock], issued.turn.atUs)];
  });
}

function isWrong({ turn }: Issued, { turn: before }: Issued, order: Order): boolean {
  if (order(turn, before) === 0) return true;
  const askedAt = turn.attempt?.asksCounter?.seq ?? turn.seq;
  return before.seq < askedAt && turn.counter <= before.counter;
}

function writing(record: TraceIndex): Finding[] {
  if (record.setup.resource !== 'fencing' && record.setup.resource !== 'fencing-strict') return [];
  const order = orderOf(record);
  const highest = new Map<string, Turn>();
  const writes = record.locks
    .flatMap((lock) => lock.writes.map((write) => ({ lock, write })))
    .sort((a, b) => a.write.seq - b.write.seq);
  return writes.flatMap(({ lock, write }) => {
    const turn = lock.turns.findLast((it) => it.kind !== 'end' && it.seq < write.seq);
    if (turn === undefined) return [];
    const isLow = lock.resources.some((resource) => {
      const seen = highest.get(resource);
      return seen !== undefined && order(turn, seen) < 0;
    });
    if (!isLow) for (const resource of lock.resources) highest.set(resource, turn);
    return isLow === write.accepted ? [finding('fencing', [lock], write.atUs)] : [];
  });
}
