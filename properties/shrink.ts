import fc from 'fast-check';
import { FAULT_KINDS, type PropertyId, type Schedule } from '../scenarios/index.js';
import { type Course, courseArbitrary } from './arbitraries/schedule.js';
import { courseOf, withCourse } from './course.js';
import { type Judgement, judge } from './judge.js';

/** A failing schedule made small. */
export interface Shrunk {
  readonly schedule: Schedule;
  /** How many schedules were tried. */
  readonly tried: number;
}

/** Rounds of shrinking; each starts from what the last one found, until nothing changes. */
const MOST_ROUNDS = 12;

/**
 * Schedules tried at most. Times that hold each other up can be lowered in turns, a little at a time and for ever; the
 * count, unlike a clock, ends that in the same place every time.
 */
const MOST_TRIED = 10_000;

/**
 * Shrinks a failing schedule through fast-check: leaves out clients, locks, faults, fates and clock errors, and rounds
 * times, as long as the same property still breaks and no assumption is broken that was kept before.
 */
export function shrink(schedule: Schedule, property: PropertyId): Shrunk {
  const allowed = judge(schedule).assumptionsBroken;
  let tried = 0;
  const stillFails = (candidate: Schedule): boolean => {
    if (tried >= MOST_TRIED) return false;
    tried++;
    const judgement = judge(candidate, [property]);
    return breaks(judgement, property) && judgement.assumptionsBroken.every((it) => allowed.includes(it));
  };
  let best = withCourse(schedule, courseOf(schedule));
  if (!stillFails(best)) return { schedule, tried };
  const arbitrary = courseArbitrary({
    nodes: schedule.cluster.nodes,
    clients: Math.max(...schedule.clients.map((client) => Number(client.id.slice(1)))),
    ttlMs: 10_000,
    untilUs: 2 ** 52,
    faults: FAULT_KINDS,
    leastRestartUs: 0,
    mostFaults: 65_536,
    mostFates: 65_536,
  });
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const simpler = shrinkOnce(arbitrary, best, stillFails);
    if (simpler === null || JSON.stringify(simpler) === JSON.stringify(best)) break;
    best = simpler;
  }
  return { schedule: best, tried };
}

function shrinkOnce(
  arbitrary: fc.Arbitrary<Course>,
  from: Schedule,
  stillFails: (schedule: Schedule) => boolean,
): Schedule | null {
  const holds = fc.property(arbitrary, (course) => !stillFails(withCourse(from, course)));
  const details = fc.check(holds, { examples: [[courseOf(from)]], numRuns: 1, seed: 0 });
  const found = details.counterexample?.[0];
  return found === undefined ? null : withCourse(from, found);
}

function breaks(judgement: Judgement, property: PropertyId): boolean {
  return judgement.violations.some((violation) => violation.property === property);
}
