import { joined, type Span } from './clock-line.js';
import type { Lock, TraceIndex, Turn } from './trace-index.js';

/** A client takes a lock for its own from one turn on, with this deadline, until the next turn (or the end of the run). */
interface Hold {
  readonly turn: Turn;
  /** The place of the next turn in the trace. */
  readonly toSeq: number;
  readonly toUs: number;
}

/** The times for which a lock was believed in, by its trace. */
function holdsOf(lock: Lock, record: TraceIndex): Hold[] {
  return lock.turns.flatMap((turn, i) => {
    if (turn.kind === 'end') return [];
    const next = lock.turns[i + 1];
    return [{ turn, toSeq: next?.seq ?? Number.POSITIVE_INFINITY, toUs: next?.atUs ?? record.endUs }];
  });
}

/** When a client believed to hold a lock: it was not over, and its own clock had not reached the deadline. */
export function beliefsOf(lock: Lock, record: TraceIndex): Span[] {
  const clock = record.clock(lock.client);
  return joined(
    holdsOf(lock, record).flatMap(({ turn, toUs }) => clock.showsLess(turn.deadline, { from: turn.atUs, to: toUs })),
  );
}

/** Whether it believed when a trace event happened: at that very event, not at the end of its instant. */
export function believedAt(lock: Lock, record: TraceIndex, atUs: number, seq: number): boolean {
  const hold = holdsOf(lock, record).find(({ turn, toSeq }) => turn.seq < seq && seq < toSeq);
  return hold !== undefined && record.clock(lock.client).shownAt(atUs, seq) < hold.turn.deadline;
}
