import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judge } from '../properties/judge.js';
import { parseSchedule, type Schedule } from '../scenarios/index.js';
import { schedule } from '../sim/testing/schedule.js';
import { courseArbitrary, type ScheduleBody } from './arbitraries/schedule.js';
import { withBody } from './schedule-body.js';

/** Two clients, three nodes, and nodes that crash. */
const courses = courseArbitrary({
  nodes: 3,
  clients: 2,
  ttlMs: 1_000,
  untilUs: 1_200_000,
  faults: ['crash'],
  leastRestartUs: 0,
  mostFaults: 6,
  mostFates: 4,
});

/** The course on perfect clocks, with every crash followed by an immediate restart. */
function crashing(course: ScheduleBody, persistence: 'none' | 'always'): Schedule {
  const faults = course.faults.map((fault) => (fault.kind === 'crash' ? { ...fault, restartAfterUs: 0 } : fault));
  const base = schedule({ cluster: { nodes: 3, persistence }, untilUs: 4_000_000 });
  return withBody(base, { ...course, faults, clocks: [] });
}

function holds(plan: Schedule): boolean {
  return judge(plan).verdicts.belief === 'safe';
}

describe('a fast-check suite over schedules', () => {
  it('finds two holders where nodes restart at once and forget, and makes the failure small', () => {
    const excluded = fc.property(courses, (course) => holds(crashing(course, 'none')));
    const { failed, counterexample } = fc.check(excluded, { seed: 2, numRuns: 5_000 });
    expect(failed).toBe(true);
    const [course] = counterexample ?? [];
    if (course === undefined) throw new Error('there is no counterexample');
    const small = crashing(course, 'none');
    expect(holds(small)).toBe(false);
    expect(parseSchedule(small)).toEqual(small);
    // Two locks, and two of the three nodes that forget the first of them.
    expect({
      locks: small.clients.flatMap(({ locks }) => locks).length,
      crashes: small.faults.length,
      fates: small.fates.length,
    }).toEqual({ locks: 2, crashes: 2, fates: 0 });
    expect(judge(small).assumptionsBroken).toEqual(['durability']);
  });

  it('finds none where they keep what they acknowledged', () => {
    const excluded = fc.property(courses, (course) => holds(crashing(course, 'always')));
    fc.assert(excluded, { seed: 2, numRuns: 1_500 });
  });
});
