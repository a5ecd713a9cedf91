import type { LockRun } from './lock-run.js';
import type { Message } from './message.js';
import type { PlannedFault } from './planned-fault.js';
import { type TrueTime, trueTime } from './time.js';

/** What an event is about. */
export type Subject = Message | LockRun | PlannedFault;

/**
 * What comes first at one instant: faults marked `before`, deliveries, calls of clients, timers and expiries, faults
 * marked `after`. Within one class the order is that of {@link Queue.push}, or for faults and calls that of the schedule.
 */
export const Class = { before: 0, delivery: 1, call: 2, timer: 3, after: 4 } as const;
export type Class = (typeof Class)[keyof typeof Class];

const CLASS_SPAN = 2 ** 28;

/** Class and order in one small integer, so that a comparison of events is two comparisons of integers. */
export function rankOf(cls: Class, order: number): number {
  return cls * CLASS_SPAN + order;
}

/** Places of a class that are ahead of its others: for what has waited. */
const WAITED = CLASS_SPAN / 2;

/**
 * The rank of an event that has to wait for a frozen process: ahead of what comes only when the wait is over, and in the
 * order of first arrival, which `order` counts. An event that has waited already keeps its rank.
 */
export function waitedRank(rank: number, order: number): number {
  const place = rank % CLASS_SPAN;
  return place >= WAITED ? rank : rank - place - WAITED + order;
}

/** What kind of thing an event is; the world knows what to do. */
export const EventKind = {
  request: 0,
  reply: 1,
  call: 2,
  timer: 3,
  expiry: 4,
  fault: 5,
  restart: 6,
  mark: 7,
  write: 8,
} as const;
export type EventKind = (typeof EventKind)[keyof typeof EventKind];

/**
 * An entry of the queue. One shape for all kinds, because the engine's speed depends on it: `process`, `index`, `slot`
 * and `generation` mean what the kind says, `subject` is what it is about.
 */
export class QueueEvent {
  at: TrueTime = trueTime(0);
  rank = 0;
  kind: EventKind = EventKind.request;
  process = 0;
  index = 0;
  slot = 0;
  generation = 0;
  /** Which life of its process it waits for, if it has to wait. */
  life = -1;
  /** Sequence number of the trace event that caused this one. */
  cause = -1;
  subject: Subject | null = null;
}

/** A binary heap by time, then rank. Spent events are reused. */
export class Queue {
  private readonly heap: QueueEvent[] = [];
  private readonly spent: QueueEvent[] = [];

  get size(): number {
    return this.heap.length;
  }

  /** An event to fill in further and {@link push}. */
  blank(kind: EventKind, at: TrueTime, rank: number, process: number, subject: Subject | null): QueueEvent {
    const event = this.spent.pop() ?? new QueueEvent();
    event.kind = kind;
    event.at = at;
    event.rank = rank;
    event.process = process;
    event.subject = subject;
    return event;
  }

  push(event: QueueEvent): void {
    const heap = this.heap;
    let hole = heap.length;
    heap.push(event);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = heap[parent] as QueueEvent;
      if (!precedes(event, above)) break;
      heap[hole] = above;
      hole = parent;
    }
    heap[hole] = event;
  }

  /** Takes the first event, or `undefined`. */
  pop(): QueueEvent | undefined {
    const heap = this.heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    const length = heap.length;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= length) break;
      let below = heap[child] as QueueEvent;
      if (child + 1 < length) {
        const right = heap[child + 1] as QueueEvent;
        if (precedes(right, below)) {
          below = right;
          child++;
        }
      }
      if (!precedes(below, last)) break;
      heap[hole] = below;
      hole = child;
    }
    heap[hole] = last;
    return first;
  }

  /** Gives an event back that {@link pop} returned and nobody needs any more. */
  recycle(event: QueueEvent): void {
    event.subject = null;
    event.life = -1;
    this.spent.push(event);
  }

  clear(): void {
    for (const event of this.heap) this.recycle(event);
    this.heap.length = 0;
  }
}

function precedes(a: QueueEvent, b: QueueEvent): boolean {
  return a.at < b.at || (a.at === b.at && a.rank < b.rank);
}
