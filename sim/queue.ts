import { type Answer, type LocalTime, localTime } from '../core/index.js';
import { Heap, precedes } from './heap.js';
import type { Process } from './process.js';
import { type TrueTime, trueTime } from './time.js';

/**
 * What comes first at one instant: faults marked `before`, deliveries, calls of clients, timers and expiries, faults
 * marked `after`. Within one class the order is that of {@link Queue.push}, or for faults and calls that of the schedule.
 */
export const TieRank = { before: 0, delivery: 1, call: 2, timer: 3, after: 4 } as const;
/** One of {@link TieRank}. */
export type TieRank = (typeof TieRank)[keyof typeof TieRank];

const CLASS_SPAN = 2 ** 28;

/** Class and order in one small integer, so that a comparison of events is two comparisons of integers. */
export function rankOf(cls: TieRank, order: number): number {
  return cls * CLASS_SPAN + order;
}

const CALLS_PER_CLIENT = 4096;

/** Among calls of one instant, those of one client come before those of the next. */
export function callRank(client: number, lock: number): number {
  return rankOf(TieRank.call, client * CALLS_PER_CLIENT + lock);
}

/** Places of a class that are ahead of its others: for what has waited. */
const WAITED = CLASS_SPAN / 2;

/** Where timers that go ahead of deliveries are put: behind faults, ahead of deliveries that have waited. */
const EARLY = WAITED / 2;

/**
 * The rank of an event that has to wait for a frozen process: ahead of what comes only when the wait is over, and in the
 * order of first arrival, which `order` counts; timers ahead of deliveries if so asked. An event that has waited already
 * keeps its rank.
 */
export function waitedRank(rank: number, order: number, timersFirst: boolean): number {
  const place = rank % CLASS_SPAN;
  if (place >= WAITED || (rank >= EARLY && rank < WAITED)) return rank;
  if (timersFirst && rank - place === TieRank.timer * CLASS_SPAN) return EARLY + order;
  return rank - place - WAITED + order;
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
  write: 7,
  resend: 8,
  answer: 9,
  control: 10,
} as const;
/** One of {@link EventKind}. */
export type EventKind = (typeof EventKind)[keyof typeof EventKind];

/**
 * An entry of the queue. One shape for all kinds, because the engine's speed depends on it: `index`, `slot`, `local`
 * `answer`
 * and `counter` mean what the kind says.
 */
export class QueueEvent {
  at: TrueTime = trueTime(0);
  rank = 0;
  kind: EventKind = EventKind.request;
  /** To whom it happens, if that one may be frozen. */
  process: Process | null = null;
  index = 0;
  slot = 0;
  /** Of a timer: when it is due by the clock of its process. */
  local: LocalTime = localTime(0);
  answer: Answer = 'error';
  counter = 0;
  /** Which life of its process it waits for, if it has to wait. */
  life = -1;
  /** Sequence number of the trace event that caused this one. */
  cause = -1;
  /** What it is about; the kind says of which type it is. */
  subject: object | null = null;
  /** The one behind it. */
  next: QueueEvent | null = null;
}

/** Where walking the list costs as much as the heap does. */
const LONGEST_WALK = 48;

/**
 * Events by time, then rank. What is put in lies close to what comes next and few events wait at a time, so that walking
 * a list from the front takes half as long as a binary heap does; what would be a long walk goes into a heap after all.
 * Spent events are reused.
 */
export class Queue {
  private first: QueueEvent | null = null;
  /** The end of the list, and how many are in it. */
  private last: QueueEvent | null = null;
  private nearCount = 0;
  private readonly far = new Heap<QueueEvent>();
  /** How many are in the heap, mostly none. */
  private farCount = 0;
  private spent: QueueEvent | null = null;

  /** Leaves nothing in it. */
  reset(): void {
    for (let event = this.first; event !== null; ) {
      const { next } = event;
      this.recycle(event);
      event = next;
    }
    this.first = null;
    this.last = null;
    this.nearCount = 0;
    for (let event = this.far.pop(); event !== undefined; event = this.far.pop()) this.recycle(event);
    this.farCount = 0;
  }

  /** An event to fill in further and {@link push}. */
  blank(kind: EventKind, at: TrueTime, rank: number, process: Process | null, subject: object): QueueEvent {
    const event = this.spent ?? new QueueEvent();
    this.spent = event.next;
    event.kind = kind;
    event.at = at;
    event.rank = rank;
    event.process = process;
    event.subject = subject;
    return event;
  }

  push(event: QueueEvent): void {
    const { first, last } = this;
    // `precedes`, without a look-up of it in every round of the loop.
    const { at, rank } = event;
    if (first === null || last === null) {
      this.put(null, event, null);
    } else if (last.at < at || (last.at === at && last.rank < rank)) {
      if (this.nearCount > LONGEST_WALK) this.pushFar(event);
      else this.put(last, event, null);
    } else {
      // It goes ahead of the last one, so that the walk needs no other end.
      let before: QueueEvent | null = null;
      let after: QueueEvent = first;
      for (let walked = 0; after.at < at || (after.at === at && after.rank < rank); walked++) {
        if (walked === LONGEST_WALK) {
          this.pushFar(event);
          return;
        }
        before = after;
        after = after.next as QueueEvent;
      }
      this.put(before, event, after);
    }
  }

  /** Its process is frozen: it waits until then, in the order in which it came, which `order` counts. */
  putOff(event: QueueEvent, { pausedUntil, timersFirst, life }: Process, order: number): void {
    event.at = pausedUntil;
    event.rank = waitedRank(event.rank, order, timersFirst);
    event.life = life;
    this.push(event);
  }

  private pushFar(event: QueueEvent): void {
    this.far.push(event);
    this.farCount++;
  }

  /** Puts an event between two of the list. */
  private put(before: QueueEvent | null, event: QueueEvent, after: QueueEvent | null): void {
    event.next = after;
    if (before === null) this.first = event;
    else before.next = event;
    if (after === null) this.last = event;
    this.nearCount++;
  }

  /** The first event, which stays, or `undefined`. */
  get head(): QueueEvent | undefined {
    return (this.farCount > 0 && this.isFarNext ? this.far.first : this.first) ?? undefined;
  }

  /** Whether it is in the heap, which is not empty. */
  private get isFarNext(): boolean {
    const { first, far } = this;
    return first === null || (far.first !== undefined && precedes(far.first, first));
  }

  /** Takes the first event, or `undefined`. */
  pop(): QueueEvent | undefined {
    if (this.farCount > 0 && this.isFarNext) {
      this.farCount--;
      return this.far.pop();
    }
    const { first } = this;
    if (first === null) return undefined;
    this.first = first.next;
    if (first.next === null) this.last = null;
    this.nearCount--;
    return first;
  }

  /** Gives an event back that {@link pop} returned and nobody needs any more. */
  recycle(event: QueueEvent): void {
    event.life = -1;
    event.next = this.spent;
    this.spent = event;
  }
}
