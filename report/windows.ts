import { gzipSync } from 'node:zlib';
import type { TraceEvent } from '../sim/index.js';
import { numberOf, textOf } from './details.js';
import type { Part, SidecarFile, TraceWindow, WindowPlace } from './payload.js';
import { lowerBound } from './picture/scale.js';
import type { RunSnapshot } from './run-snapshot.js';

/** Events of one window. */
export const WINDOW = 20_000;

/** What is still in force at an event of the trace: a window on later events needs it. */
class InForce {
  private readonly keys = new Map<string, readonly TraceEvent[]>();
  private readonly down = new Map<string, TraceEvent>();
  private readonly counters = new Map<string, TraceEvent>();
  private lasting: TraceEvent[] = [];

  follow(event: TraceEvent): void {
    const place = `${event.process} ${textOf(event, 'resource')}`;
    switch (event.kind) {
      case 'key-set':
        this.keys.set(place, [event]);
        break;
      case 'key-lengthened':
        this.keys.set(place, [...(this.keys.get(place) ?? []).slice(0, 1), event]);
        break;
      case 'key-gone':
        this.keys.delete(place);
        break;
      case 'counter-set':
        this.counters.set(event.process, event);
        break;
      case 'crash':
      case 'client-crash':
        this.down.set(event.process, event);
        break;
      case 'restart':
      case 'failover':
        this.down.delete(event.process);
        break;
      case 'pause':
      case 'suspend':
      case 'error-replies':
      case 'partition':
        this.lasting.push(event);
    }
  }

  at(us: number): TraceEvent[] {
    this.lasting = this.lasting.filter((it) => numberOf(it, 'untilUs') > us);
    return [...[...this.keys.values()].flat(), ...this.down.values(), ...this.counters.values(), ...this.lasting];
  }
}

/** Parts a whole run into windows, each with what it takes to show it by itself. */
export function* windowsOf({ events, claims, names }: RunSnapshot): Generator<TraceWindow> {
  const inForce = new InForce();
  const lettered = new Map(names);
  for (let from = 0; from < events.length; from += WINDOW) {
    const own = events.slice(from, from + WINDOW);
    const [fromUs, toUs] = [own[0]?.atUs ?? 0, own.at(-1)?.atUs ?? 0];
    const near = claims.filter((it) => it.fromUs <= toUs && it.endUs >= fromUs);
    const standing = inForce.at(fromUs);
    const needed = new Set<number>();
    for (const { seq } of [...standing, ...near]) needed.add(seq);
    for (const { cause } of [...standing, ...own]) needed.add(cause);
    const carried = [...needed]
      .filter((seq) => seq >= 0 && seq < from)
      .sort((a, b) => a - b)
      .flatMap((seq) => events[seq] ?? []);
    const tokens = new Set([...carried, ...own].map((event) => numberOf(event, 'token')));
    yield {
      fromSeq: from,
      carried,
      events: own,
      claims: near,
      names: [...tokens].flatMap((token) => {
        const name = lettered.get(token);
        return name === undefined ? [] : [[token, name] as const];
      }),
    };
    for (const event of own) inForce.follow(event);
  }
}

/**
 * A whole run as a file to lie beside its report: windows packed with gzip one after the other, so that each can be read
 * by itself and `zcat` reads all. A window is a line of what it needs, and a line for each event.
 */
function besideOf(name: string, hash: string, windows: Iterable<TraceWindow>): { beside: SidecarFile; data: Buffer } {
  const places: WindowPlace[] = [];
  const packed: Buffer[] = [];
  let at = 0;
  for (const { events, ...head } of windows) {
    const lines = [{ schema: 'lockstep.trace-window/1', hash, ...head }, ...events].map((it) => JSON.stringify(it));
    const data = gzipSync(`${lines.join('\n')}\n`, { level: 4 });
    places.push({ at, bytes: data.length, fromSeq: head.fromSeq, fromUs: events[0]?.atUs ?? 0 });
    packed.push(data);
    at += data.length;
  }
  return { beside: { name, places }, data: Buffer.concat(packed) };
}

/** The events at which something goes wrong, in order. */
function wrongIn({ events, violations, outages }: RunSnapshot): number[] {
  const times = events.map(({ atUs }) => atUs);
  const instants = [...violations.map(({ atUs }) => atUs), ...outages.map(({ fromUs }) => fromUs)];
  return [...new Set(instants)].sort((a, b) => a - b).map((us) => Math.max(0, lowerBound(times, us + 1) - 1));
}

/** The window of a run in which it first goes wrong, or its last one; and the whole run as a file, if that has a name. */
export function partOf(
  taken: RunSnapshot,
  hash: string,
  besideName: string | null,
): { readonly shown: RunSnapshot; readonly part: Part; readonly data: Buffer | null } {
  const windows = [...windowsOf(taken)];
  const wrong = wrongIn(taken);
  const window = windows[Math.floor((wrong[0] ?? taken.events.length - 1) / WINDOW)];
  if (window === undefined) throw new Error('a run without events has no windows');
  const { fromSeq, carried, events, claims, names } = window;
  const file = besideName === null ? null : besideOf(besideName, hash, windows);
  return {
    shown: { ...taken, events: [...carried, ...events], claims, names, fromUs: events[0]?.atUs ?? 0 },
    part: { total: taken.events.length, fromSeq, wrong, beside: file?.beside ?? null },
    data: file?.data ?? null,
  };
}
