import fc from 'fast-check';
import { FAULT_KINDS, type PropertyId, type Schedule } from '../scenarios/index.js';
import { courseArbitrary, type ScheduleBody } from './arbitraries/schedule.js';
import { bodyOf, withBody } from './schedule-body.js';
import { type Deployment, failsLike } from './shrinking/fails-like.js';
import { isolate } from './shrinking/isolate.js';
import { type Fails, reduce } from './shrinking/reduce.js';

/** A failing schedule made small. */
interface Shrunk {
  readonly schedule: Schedule;
  /** How many schedules were tried. */
  readonly tried: number;
}

/** Rounds of shrinking through fast-check, and what they may try in all. A count, unlike a clock, ends at the same place. */
const MOST_ROUNDS = 4;
const MOST_TRIED_BY_ROUNDS = 2_000;

/**
 * Makes a failing schedule small: leaves out clients, nodes, locks, faults, fates and clock errors, and rounds times, as
 * long as the same property still breaks and no assumption is broken that was kept before. What comes out is 1-minimal:
 * leave out any one piece more, or round any one time further, and it passes (or is another deployment).
 *
 * @param deployment - What has to stay. Default: nothing of it.
 */
export function shrink(schedule: Schedule, property: PropertyId, deployment: Deployment | null = null): Shrunk {
  return shrinkWhile(schedule, failsLike(schedule, property, deployment));
}

/** Makes a schedule small for as long as it fails, whatever that means. */
function shrinkWhile(schedule: Schedule, fails: Fails): Shrunk {
  let tried = 0;
  const passed = new Set<string>();
  const failsOnce: Fails = (candidate) => {
    const key = JSON.stringify(candidate);
    if (passed.has(key)) return false;
    tried++;
    if (fails(candidate)) return true;
    passed.add(key);
    return false;
  };
  const start = withBody(schedule, bodyOf(schedule));
  if (!failsOnce(start)) return { schedule, tried };
  let best = isolate(reduce(start, failsOnce), failsOnce);
  const most = tried + MOST_TRIED_BY_ROUNDS;
  const arbitrary = anyCourse(best);
  for (let round = 0; round < MOST_ROUNDS && tried < most; round++) {
    const simpler = throughFastCheck(arbitrary, best, (candidate) => tried < most && failsOnce(candidate));
    if (simpler === null || JSON.stringify(simpler) === JSON.stringify(best)) break;
    best = isolate(reduce(simpler, failsOnce), failsOnce);
  }
  return { schedule: best, tried };
}

/** Courses of whatever a schedule can have. */
function anyCourse(schedule: Schedule): fc.Arbitrary<ScheduleBody> {
  return courseArbitrary({
    nodes: schedule.cluster.nodes,
    clients: Math.max(...schedule.clients.map((client) => Number(client.id.slice(1)))),
    ttlMs: 10_000,
    untilUs: 2 ** 52,
    faults: FAULT_KINDS,
    leastRestartUs: 0,
    setBackDisks: true,
    apart: true,
    mostFaults: 65_536,
    mostFates: 65_536,
  });
}

/** What fast-check makes of it: it leaves out several things at once, and chooses others in the place of what is there. */
function throughFastCheck(arbitrary: fc.Arbitrary<ScheduleBody>, from: Schedule, fails: Fails): Schedule | null {
  const holds = fc.property(arbitrary, (course) => !fails(withBody(from, course)));
  const details = fc.check(holds, { examples: [[bodyOf(from)]], numRuns: 1, seed: 0 });
  const found = details.counterexample?.[0];
  return found === undefined ? null : withBody(from, found);
}
