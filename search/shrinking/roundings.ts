import type { Schedule } from '../../scenarios/index.js';
import { roundness, simplerShifts, simplerTimes } from '../arbitraries/simpler.js';
import { bodyOf, withBody } from '../schedule-body.js';

/** Durations that cannot be nothing. */
const POSITIVE: readonly string[] = ['forUs'];

/** A number of a schedule, and where it is. */
interface Figure {
  readonly path: readonly (string | number)[];
  readonly value: number;
}

/** A way to make a schedule simpler. */
export interface Way {
  /** Place of the number that it changes. Those before it are as round as they get. Default: 0. */
  readonly figure?: number;
  readonly make: () => Schedule;
}

/** All the ways in which one number of what happens in a schedule can be made simpler, the simplest first for each. */
export function* roundingsOf(schedule: Schedule): IterableIterator<Way> {
  const course = bodyOf(schedule);
  for (const [figure, { path, value }] of figuresOf(course).entries()) {
    for (const simpler of simplerThan(String(path[path.length - 1]), value)) {
      yield { figure, make: () => withBody(schedule, replaced(course, path, simpler) as typeof course) };
    }
  }
}

function simplerThan(name: string, value: number): Iterable<number> {
  if (name === 'atUs') return simplerTimes(value, 0, true);
  return value < 0 ? simplerShifts(value) : simplerTimes(value, POSITIVE.includes(name) ? 1 : 0);
}

/**
 * The times and rates in a value: what is called `…Us` or `…Ppm`, and lists of it. Not how much validity a write asks
 * for: a client that is less careful fails in another way.
 */
function figuresOf(value: unknown, path: readonly (string | number)[] = []): Figure[] {
  if (typeof value === 'number') {
    const name = path.findLast((key) => typeof key === 'string');
    return /(Us|Ppm)$/.test(String(name)) && name !== 'guardUs' ? [{ path, value }] : [];
  }
  if (typeof value !== 'object' || value === null) return [];
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return entries.flatMap(([key, it]) => figuresOf(it, [...path, key]));
}

/** A copy of a value with another number at a place. */
function replaced(value: unknown, [key, ...rest]: readonly (string | number)[], by: number): unknown {
  if (key === undefined) return by;
  if (Array.isArray(value)) return value.map((it, i) => (i === key ? replaced(it, rest, by) : it));
  return { ...(value as object), [key]: replaced((value as Record<string, unknown>)[key], rest, by) };
}

/** A message that is late may as well be lost: there is no time to it then. */
export function* lossesOf(schedule: Schedule): IterableIterator<Way> {
  const course = bodyOf(schedule);
  for (const [i, { delayUs, ...fate }] of course.fates.entries()) {
    if (delayUs === undefined || fate.lost === true) continue;
    const fates = course.fates.map((it, at) => (at === i ? { ...fate, lost: true } : it));
    yield { make: () => withBody(schedule, { ...course, fates }) };
  }
}

/** What has an instant of its own in a schedule. */
function instantsOf(schedule: Schedule): number[] {
  return [...schedule.faults, ...schedule.clients.flatMap(({ locks }) => locks)].map(({ atUs }) => atUs);
}

/**
 * Schedules in which everything between two instants happens earlier, by as much as makes the first of them round, or
 * brings it to the one before: times that hold each other up have to move together. Taken as a whole the instants get
 * rounder, or earlier and as round.
 */
export function* shiftsOf(schedule: Schedule): IterableIterator<Way> {
  const all = instantsOf(schedule);
  const instants = [...new Set(all)].sort((a, b) => a - b);
  for (const [i, from] of instants.entries()) {
    const before = instants[i - 1] ?? 0;
    const targets = new Set([before, ...[...simplerTimes(from)].filter((it) => it > before && it < from)]);
    for (const target of targets) {
      if (target === from) continue;
      for (const until of [Number.POSITIVE_INFINITY, ...instants.slice(i + 1).reverse()]) {
        const move = (atUs: number): number => (atUs >= from && atUs < until ? atUs - (from - target) : atUs);
        if (roughness(all.map(move)) <= roughness(all)) yield { make: () => moved(schedule, move) };
      }
    }
  }
}

/** Less is rounder. */
function roughness(instants: readonly number[]): number {
  return instants.reduce((sum, us) => sum + (us === 0 ? 0 : 7 - Math.log10(roundness(us))), 0);
}

function moved(schedule: Schedule, move: (atUs: number) => number): Schedule {
  const earlier = <T extends { readonly atUs: number }>(it: T): T => ({ ...it, atUs: move(it.atUs) });
  const course = bodyOf(schedule);
  return withBody(schedule, {
    ...course,
    faults: course.faults.map(earlier),
    clients: course.clients.map((client) => ({ ...client, locks: client.locks.map(earlier) })),
  });
}
