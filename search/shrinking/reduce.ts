import type { Schedule } from '../../scenarios/index.js';
import type { ScheduleBody } from '../arbitraries/schedule.js';
import { bodyOf, withBody } from '../schedule-body.js';
import { type Piece, type PieceKind, piecesOf } from './pieces.js';
import { lossesOf, roundingsOf, shiftsOf, type Way } from './roundings.js';

/** Whether a schedule still shows what is looked for. */
export type Fails = (schedule: Schedule) => boolean;

/** Gives the schedules to be tried, takes whether each fails, and returns the smallest that does. */
export type Reduction = Generator<Schedule, Schedule, boolean>;

/** Makes a failing schedule smaller until it is 1-minimal, as {@link reduction} does. */
export function reduce(schedule: Schedule, fails: Fails): Schedule {
  return tryAll(reduction(schedule), fails);
}

/** Tries whatever a reduction asks for. */
export function tryAll(steps: Reduction, fails: Fails): Schedule {
  for (let step = steps.next(); ; step = steps.next(fails(step.value))) if (step.done === true) return step.value;
}

/**
 * Makes a failing schedule smaller until it is 1-minimal: it fails no longer if any one piece is left out, or any one
 * time is made rounder. Every step makes it smaller or rounder, so it ends.
 */
export function* reduction(schedule: Schedule): Reduction {
  let best = schedule;
  for (;;) {
    const before = best;
    best = yield* leaveOutMany(best);
    best = yield* leaveOutPieces(best);
    best = yield* takeFirst(best, lossesOf);
    best = yield* takeFirst(best, shiftsOf);
    best = yield* takeFirst(best, roundingsOf);
    if (best === before) return best;
  }
}

/** Leaves out whole stretches of the lists that get long, half of a list first. */
function* leaveOutMany(schedule: Schedule): Reduction {
  let best = schedule;
  for (const list of ['fates', 'faults', 'clocks'] as const) {
    for (let size = bodyOf(best)[list].length; size > 1; size = Math.floor(size / 2)) {
      for (let from = 0; from < bodyOf(best)[list].length; ) {
        const course = bodyOf(best);
        const rest = (course[list] as readonly unknown[]).filter((_, i) => i < from || i >= from + size);
        const smaller = withBody(best, { ...course, [list]: rest } as ScheduleBody);
        if (yield smaller) best = smaller;
        else from += size;
      }
    }
  }
  return best;
}

/** Leaves out one piece after the other; with `keep`, none of that kind. */
export function* leaveOutPieces(schedule: Schedule, keep: PieceKind | null = null): Reduction {
  const piecesIn = (it: Schedule): Piece[] => piecesOf(it).filter(({ kind }) => kind !== keep);
  let best = schedule;
  let pieces = piecesIn(best);
  for (let i = 0; i < pieces.length; ) {
    const smaller = pieces[i]?.without();
    if (smaller !== undefined && (yield smaller)) {
      best = smaller;
      pieces = piecesIn(best);
    } else i++;
  }
  return best;
}

/** Takes the first of the ways in which it still fails, for as long as there is one. */
function* takeFirst(schedule: Schedule, ways: (schedule: Schedule) => Iterable<Way>): Reduction {
  let best = schedule;
  for (let from = 0, again = true; again; ) {
    again = false;
    for (const { figure = 0, make } of ways(best)) {
      if (figure < from) continue;
      const simpler = make();
      if (isSame(simpler, best) || !(yield simpler)) continue;
      best = simpler;
      from = figure;
      again = true;
      break;
    }
  }
  return best;
}

/** Everything that is tried of a schedule by itself: each piece left out, each late message lost, each time rounder. */
export function* oneStepsOf(schedule: Schedule): IterableIterator<Schedule> {
  const omissions = piecesOf(schedule).map(({ without }) => ({ make: without }));
  for (const ways of [omissions, lossesOf(schedule), roundingsOf(schedule)]) {
    for (const { make } of ways) {
      const step = make();
      if (!isSame(step, schedule)) yield step;
    }
  }
}

/** What one figure loses, another may release: a write is never sent before its check. That is no step. */
function isSame(a: Schedule, b: Schedule): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
