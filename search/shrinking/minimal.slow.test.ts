import { expect, it } from 'vitest';
import { SEARCHED } from '../../properties/property-lists.js';
import type { PropertyId, Schedule } from '../../scenarios/index.js';
import { check } from '../check.js';
import type { Counterexample } from '../counterexample.js';
import { DETECTION_RUNS } from '../mutants/detect.js';
import type { Mutant } from '../mutants/mutant.js';
import { faultModelFor, MUTANTS } from '../mutants/registry.js';
import { shrink } from '../shrink.js';
import { explain } from './explain.js';
import { failsLike } from './fails-like.js';
import { oneStepsOf } from './reduce.js';

/** The schedules one step simpler that break the property as well: there are none if it is 1-minimal. */
function failingSteps(schedule: Schedule, property: PropertyId): Schedule[] {
  const fails = failsLike(schedule, property);
  return [...oneStepsOf(schedule)].filter(fails);
}

/** The first search that finds a planted bug, and what it finds. */
async function caught(mutant: Mutant, seed: string): Promise<Counterexample> {
  const search = { faultModel: faultModelFor(mutant), seed, runs: DETECTION_RUNS, properties: mutant.by ?? SEARCHED };
  const { counterexample } = await check({ ...search, shrink: false });
  if (counterexample === null) throw new Error(`${mutant.id} got away`);
  return counterexample;
}

function expectMinimal({ property, schedule: found }: Counterexample): void {
  const { schedule } = shrink(found, property);
  // It did not become another failure on the way.
  expect(failsLike(found, property)(schedule)).toBe(true);
  expect(failingSteps(schedule, property)).toEqual([]);
  expect(explain(schedule, property).filter(({ without }) => without === 'fails')).toEqual([]);
}

it.each(MUTANTS)(
  '$id is caught by $expect, and what gives it away is shrunk until nothing more can go',
  async (mutant) => {
    // The first search of the hunt (search/mutants/detect.ts).
    const first = await caught(mutant, `hunt ${mutant.id} 0`);
    expect(first.property).toBe(mutant.expect);
    expectMinimal(first);
    expectMinimal(await caught(mutant, `minimal ${mutant.id}`));
  },
);
