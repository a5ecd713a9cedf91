import type { TraceEvent, TraceKind } from '../../sim/index.js';

/** Where an event lies within its instant, pixels from the first event of it. */
export interface PlaceInInstant {
  readonly atUs: number;
  readonly offset: number;
}

/** What follows from these at once lies this far behind them, pixels; nothing else needs room of its own. */
const ROOM: Readonly<Partial<Record<TraceKind, number>>> = {
  crash: 20,
  'client-crash': 20,
  restart: 8,
  failover: 12,
  'data-loss': 12,
  // Of a message that takes no time.
  send: 22,
  'write-sent': 22,
  reply: 7,
};
/** Two things that one process does in one instant, and of which neither led to the other, are this far apart. */
const APART = 7;
/** No instant is wider than this. */
const MOST = 130;

/**
 * Sets the events of each instant apart, so that a cause lies before its effect, and what a process did first before what it
 * did then. What a process sends to many nodes at once stays in one place.
 */
export function placesInInstants(events: readonly TraceEvent[]): ReadonlyMap<number, PlaceInInstant> {
  const places = new Map<number, PlaceInInstant>();
  let group: TraceEvent[] = [];
  for (const event of events) {
    if (group[0] !== undefined && group[0].atUs !== event.atUs) {
      placeGroup(group, places);
      group = [];
    }
    group.push(event);
  }
  placeGroup(group, places);
  return places;
}

/** The last place of a process so far, and the event of the instant that all of its latest doings go back to. */
interface Latest {
  readonly root: number;
  readonly end: number;
}

function placeGroup(group: readonly TraceEvent[], places: Map<number, PlaceInInstant>): void {
  if (group.length < 2) return;
  const offsets = new Map<number, { readonly offset: number; readonly room: number; readonly root: number }>();
  const latest = new Map<string, Latest>();
  let widest = 0;
  for (const { seq, cause, process, kind } of group) {
    const by = offsets.get(cause);
    const root = by?.root ?? seq;
    const last = latest.get(process);
    const after = last === undefined || last.root === root ? 0 : last.end;
    const offset = Math.max(by === undefined ? 0 : by.offset + by.room, after);
    const room = ROOM[kind] ?? 0;
    offsets.set(seq, { offset, room, root });
    latest.set(process, { root, end: Math.max(last?.end ?? 0, offset + Math.max(room, APART)) });
    widest = Math.max(widest, offset);
  }
  const factor = widest > MOST ? MOST / widest : 1;
  for (const { seq, atUs } of group) places.set(seq, { atUs, offset: (offsets.get(seq)?.offset ?? 0) * factor });
}
