import fc from 'fast-check';
import { judge } from '../properties/judge.js';
import type { Violation } from '../properties/violation.js';
import { FAULT_KINDS, type Fault, type PropertyId, type Schedule } from '../scenarios/index.js';
import { courseArbitrary, type ScheduleBody } from './arbitraries/schedule.js';
import { bodyOf, withBody } from './schedule-body.js';
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

/** What of a deployment stays as it is, whatever else goes: somebody asked about this one. */
export interface Deployment {
  readonly nodes: number;
  /** No node is back sooner after a crash, µs; 0 for any time. */
  readonly leastRestartUs: number;
}

/**
 * Makes a failing schedule small: leaves out clients, nodes, locks, faults, fates and clock errors, and rounds times, as
 * long as the same property still breaks and no assumption is broken that was kept before. What comes out is 1-minimal:
 * leave out any one piece more, or round any one time further, and it passes (or is another deployment).
 *
 * @param deployment - What has to stay. Default: nothing of it.
 */
export function shrink(schedule: Schedule, property: PropertyId, deployment: Deployment | null = null): Shrunk {
  const fails = failsLike(schedule, property);
  if (deployment === null) return shrinkWhile(schedule, fails);
  return shrinkWhile(schedule, (candidate) => isIn(deployment, candidate) && fails(candidate));
}

function isIn({ nodes, leastRestartUs }: Deployment, { cluster, faults }: Schedule): boolean {
  return cluster.nodes === nodes && soonestRestartUs(faults) >= leastRestartUs;
}

/** How soon a node is back after a crash, µs; infinite if none is. */
export function soonestRestartUs(faults: readonly Fault[]): number {
  const restarts = faults.map((fault) => (fault.kind === 'crash' ? fault.restartAfterUs : null));
  return Math.min(...restarts.filter((it) => it !== null));
}

/**
 * Whether a schedule breaks a property as another one does: no assumption is broken that the other keeps, and what two
 * clients do to each other does not become what one does to itself.
 */
export function failsLike(schedule: Schedule, property: PropertyId): Fails {
  const { violations, assumptionsBroken: allowed } = judge(schedule, [property]);
  const alike = violations.some((it) => it.property === property && isOnesOwn(it)) ? () => true : isOfTwo;
  return (candidate) => {
    const judgement = judge(candidate, [property]);
    return (
      judgement.violations.some((it) => it.property === property && alike(it)) &&
      judgement.assumptionsBroken.every((it) => allowed.includes(it))
    );
  };
}

function isOnesOwn({ clients }: Violation): boolean {
  return new Set(clients).size < 2;
}

function isOfTwo(violation: Violation): boolean {
  return !isOnesOwn(violation);
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
