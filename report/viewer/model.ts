import type { TraceKind } from '../../sim/index.js';
import { isFault } from '../fault-words.js';
import type { Watched } from '../lock-states.js';
import type { ComparedRun, Payload } from '../payload.js';
import { type Scene, sceneOf } from '../picture/scene.js';
import type { RunSnapshot } from '../run-snapshot.js';
import type { Engine } from './start-engine.js';

/** What a message comes to, where it comes to anything. */
const ARRIVALS: readonly TraceKind[] = ['execute', 'reply', 'no-script', 'dropped', 'write-arrived', 'write-refused'];

/** A run that the page can show. */
export interface Opened {
  readonly scene: Scene;
  readonly verdict: string;
  readonly hash: string;
  /** What the locks knew; `null` for a run that was taken down and not run here. */
  readonly stepAt: Watched['stepAt'] | null;
  /** Mitigations and parameters that differ from the run as it was written. */
  readonly settings: readonly string[];
}

/** Shows what was taken down when the report was written. */
export function opened({ schedule, hash }: Pick<Payload, 'schedule' | 'hash'>, taken: RunSnapshot): Opened {
  return { scene: sceneOf(schedule, inSight(taken)), verdict: taken.verdict, hash, stepAt: null, settings: [] };
}

/** Without what goes wrong before or after the events that are there. */
function inSight(taken: RunSnapshot): RunSnapshot {
  if (taken.fromUs === 0) return taken;
  const endUs = taken.events.at(-1)?.atUs ?? 0;
  const isIn = (fromUs: number, toUs: number): boolean => fromUs <= endUs && toUs >= taken.fromUs;
  return {
    ...taken,
    violations: taken.violations.filter(({ atUs, untilUs }) => isIn(atUs, untilUs ?? atUs)),
    outages: taken.outages.filter(({ fromUs, toUs }) => isIn(fromUs, toUs)),
  };
}

/**
 * Runs the schedule of a page with these settings.
 *
 * @throws {@link InputError} if they make no sense.
 */
export function rerun(engine: Engine, payload: Payload, settings: readonly string[]): Opened {
  const also = payload.source.kind === 'schedule' ? payload.source.also : [];
  const { schedule, taken, hash, stepAt } = engine.run(payload.schedule, settings, also);
  return { scene: sceneOf(schedule, taken), verdict: taken.verdict, hash, stepAt, settings };
}

/** Runs the schedule that a page compares its own with. */
export function rerunOther(engine: Engine, other: ComparedRun): Opened {
  const { schedule, taken, hash, stepAt } = engine.run(other.schedule, [], other.also);
  return { scene: sceneOf(schedule, taken), verdict: taken.verdict, hash, stepAt, settings: [] };
}

const MOVES = [
  'next',
  'back',
  'laneNext',
  'laneBack',
  'violation',
  'faultNext',
  'faultBack',
  'other',
  'cause',
] as const;

/** Where a step leads. */
export type Move = (typeof MOVES)[number];

/** Whether it leads to another event. */
export function isMove(action: string): action is Move {
  return MOVES.some((it) => it === action);
}

/** Index of the event that a step leads to; the same one where there is none. */
export function moved({ scene }: Opened, shown: readonly number[], at: number, move: Move): number {
  const { events } = scene;
  const event = events[at];
  const place = shown.indexOf(at);
  switch (move) {
    case 'next':
      return shown[place + 1] ?? (place < 0 ? (shown.find((it) => it > at) ?? at) : at);
    case 'back':
      return shown[place - 1] ?? (place < 0 ? (shown.findLast((it) => it < at) ?? at) : at);
    case 'laneNext':
      return orStay(
        events.findIndex((it, i) => i > at && it.process === event?.process),
        at,
      );
    case 'laneBack':
      return orStay(
        events.findLastIndex((it, i) => i < at && it.process === event?.process),
        at,
      );
    case 'violation':
      return violationAt(scene, at);
    case 'faultNext':
      return orStay(
        events.findIndex((it, i) => i > at && isFault(it.kind)),
        at,
      );
    case 'faultBack':
      return orStay(
        events.findLastIndex((it, i) => i < at && isFault(it.kind)),
        at,
      );
    case 'other':
      return otherEnd(scene, at);
    case 'cause':
      return orStay(indexOf(scene, event?.cause ?? -1), at);
  }
}

function orStay(found: number, at: number): number {
  return found < 0 ? at : found;
}

/** Place of an event in the list of events, by its sequence number. */
export function indexOf({ events }: Scene, seq: number): number {
  let [low, high] = [0, events.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = events[middle]?.seq ?? 0;
    if (found === seq) return middle;
    if (found < seq) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** The event at which a page begins: the first violation, or the first time in which nobody could acquire. */
export function beginning({ scene }: Opened): number {
  const [first] = scene.violations;
  return first === undefined ? violationAt(scene, 0) : wrongEvent(scene, first.atUs);
}

/** The event that makes it wrong at an instant, or the last one before it. */
function wrongEvent({ events }: Scene, us: number): number {
  const claim = events.findLastIndex((it) => it.atUs === us && (it.kind === 'claim' || it.kind === 'write-arrived'));
  return claim >= 0 ? claim : events.findLastIndex((it) => it.atUs <= us);
}

/** The violations in turn: from each to the one behind it. */
function violationAt(scene: Scene, at: number): number {
  const { events, violations, outages } = scene;
  const now = events[at]?.atUs ?? 0;
  const instants = [...violations.map((it) => it.atUs), ...outages.map((it) => it.fromUs)].sort((a, b) => a - b);
  const places = instants.map((us) => wrongEvent(scene, us));
  return places.find((place) => place > at && (events[place]?.atUs ?? 0) >= now) ?? places[0] ?? at;
}

function otherEnd(scene: Scene, at: number): number {
  const event = scene.events[at];
  if (event === undefined) return at;
  if (event.kind === 'send' || event.kind === 'write-sent') {
    const arrival = scene.effectsOf(event.seq).find((it) => ARRIVALS.includes(it.kind));
    return arrival === undefined ? at : orStay(indexOf(scene, arrival.seq), at);
  }
  const isArrival = ARRIVALS.includes(event.kind);
  return isArrival ? orStay(indexOf(scene, event.cause), at) : at;
}
