/** What has a time and a place in the order of its instant. */
interface Ranked {
  readonly at: number;
  readonly rank: number;
}

/** Whether one of two comes first: by its time, then by its rank. */
export function precedes(a: Ranked, b: Ranked): boolean {
  return a.at < b.at || (a.at === b.at && a.rank < b.rank);
}

/** A binary heap by time, then rank. */
export class Heap<T extends Ranked> {
  private readonly events: T[] = [];

  /** The one that {@link pop} would take. */
  get first(): T | undefined {
    return this.events[0];
  }

  push(event: T): void {
    const { events } = this;
    let hole = events.length;
    events.push(event);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = events[parent] as T;
      if (!precedes(event, above)) break;
      events[hole] = above;
      hole = parent;
    }
    events[hole] = event;
  }

  pop(): T | undefined {
    const { events } = this;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    const { length } = events;
    let hole = 0;
    for (let child = 1; child < length; child = 2 * hole + 1) {
      if (child + 1 < length && precedes(events[child + 1] as T, events[child] as T)) child++;
      const below = events[child] as T;
      if (!precedes(below, last)) break;
      events[hole] = below;
      hole = child;
    }
    events[hole] = last;
    return first;
  }
}
