import { type TrueTime, trueTime } from './time.js';

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
export class QueueEvent<Subject> {
  at: TrueTime = trueTime(0);
  rank = 0;
  kind: EventKind = EventKind.request;
  process = 0;
  index = 0;
  slot = 0;
  generation = 0;
  /** Sequence number of the trace event that caused this one. */
  cause = -1;
  subject: Subject | null = null;
}

/** A binary heap by time, then rank. Spent events are reused. */
export class Queue<Subject> {
  private readonly heap: QueueEvent<Subject>[] = [];
  private readonly spent: QueueEvent<Subject>[] = [];

  get size(): number {
    return this.heap.length;
  }

  /** An event to fill in and {@link push}. */
  blank(): QueueEvent<Subject> {
    return this.spent.pop() ?? new QueueEvent<Subject>();
  }

  push(event: QueueEvent<Subject>): void {
    const heap = this.heap;
    let hole = heap.length;
    heap.push(event);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = heap[parent] as QueueEvent<Subject>;
      if (!precedes(event, above)) break;
      heap[hole] = above;
      hole = parent;
    }
    heap[hole] = event;
  }

  /** Takes the first event, or `undefined`. */
  pop(): QueueEvent<Subject> | undefined {
    const heap = this.heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    const length = heap.length;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= length) break;
      let below = heap[child] as QueueEvent<Subject>;
      if (child + 1 < length) {
        const right = heap[child + 1] as QueueEvent<Subject>;
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
  recycle(event: QueueEvent<Subject>): void {
    event.subject = null;
    this.spent.push(event);
  }

  clear(): void {
    for (const event of this.heap) this.recycle(event);
    this.heap.length = 0;
  }
}

function precedes<S>(a: QueueEvent<S>, b: QueueEvent<S>): boolean {
  return a.at < b.at || (a.at === b.at && a.rank < b.rank);
}
