import type { Schedule } from '../../scenarios/index.js';
import type { ScheduleBody } from '../arbitraries/schedule.js';
import { bodyOf, withBody } from '../schedule-body.js';
import { type Piece, type PieceKind, piecesOf } from './pieces.js';
import { lossesOf, roundingsOf, shiftsOf } from './roundings.js';

/** Whether a schedule still shows what is looked for. */
export type Fails = (schedule: Schedule) => boolean;

/**
 * Makes a failing schedule smaller until it is 1-minimal: it fails no longer if any one piece is left out, or any one
 * time is made rounder. Every step makes it smaller or rounder, so it ends.
 */
export function reduce(schedule: Schedule, fails: Fails): Schedule {
  let best = schedule;
  for (;;) {
    const before = best;
    best = leaveOutMany(best, fails);
    best = leaveOutPieces(best, fails);
    best = takeFirst(best, lossesOf, fails);
    best = takeFirst(best, shiftsOf, fails);
    best = roundEach(best, fails);
    if (best === before) return best;
  }
}

/** Leaves out whole stretches of the lists that get long, half of a list first. */
function leaveOutMany(schedule: Schedule, fails: Fails): Schedule {
  let best = schedule;
  for (const list of ['fates', 'faults', 'clocks'] as const) {
    for (let size = bodyOf(best)[list].length; size > 1; size = Math.floor(size / 2)) {
      for (let from = 0; from < bodyOf(best)[list].length; ) {
        const course = bodyOf(best);
        const rest = (course[list] as readonly unknown[]).filter((_, i) => i < from || i >= from + size);
        const smaller = withBody(best, { ...course, [list]: rest } as ScheduleBody);
        if (fails(smaller)) best = smaller;
        else from += size;
      }
    }
  }
  return best;
}

/** Leaves out one piece after the other; with `keep`, none of that kind. */
export function leaveOutPieces(schedule: Schedule, fails: Fails, keep: PieceKind | null = null): Schedule {
  const piecesIn = (it: Schedule): Piece[] => piecesOf(it).filter(({ kind }) => kind !== keep);
  let best = schedule;
  let pieces = piecesIn(best);
  for (let i = 0; i < pieces.length; ) {
    const smaller = pieces[i]?.without();
    if (smaller !== undefined && fails(smaller)) {
      best = smaller;
      pieces = piecesIn(best);
    } else i++;
  }
  return best;
}

/** Takes the first of the ways in which it still fails, for as long as there is one. */
function takeFirst(schedule: Schedule, ways: (schedule: Schedule) => Iterable<() => Schedule>, fails: Fails): Schedule {
  let best = schedule;
  for (let again = true; again; ) {
    again = false;
    for (const make of ways(best)) {
      const simpler = make();
      if (isSame(simpler, best) || !fails(simpler)) continue;
      best = simpler;
      again = true;
      break;
    }
  }
  return best;
}

/** Rounds one number after the other, each as far as it goes. */
function roundEach(schedule: Schedule, fails: Fails): Schedule {
  let best = schedule;
  for (let figure = 0, again = true; again; ) {
    again = false;
    for (const rounding of roundingsOf(best)) {
      if (rounding.figure < figure) continue;
      const rounder = rounding.make();
      if (isSame(rounder, best) || !fails(rounder)) continue;
      best = rounder;
      figure = rounding.figure;
      again = true;
      break;
    }
  }
  return best;
}

/** Everything that is tried of a schedule by itself: each piece left out, each late message lost, each time rounder. */
export function* oneStepsOf(schedule: Schedule): IterableIterator<Schedule> {
  for (const make of stepsOf(schedule)) {
    const step = make();
    if (!isSame(step, schedule)) yield step;
  }
}

function* stepsOf(schedule: Schedule): IterableIterator<() => Schedule> {
  for (const { without } of piecesOf(schedule)) yield without;
  yield* lossesOf(schedule);
  for (const { make } of roundingsOf(schedule)) yield make;
}

/** What one figure loses, another may release: a write is never sent before its check. That is no step. */
function isSame(a: Schedule, b: Schedule): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
