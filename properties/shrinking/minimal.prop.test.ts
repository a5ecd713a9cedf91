import { expect, it } from 'vitest';
import type { PropertyId, Schedule } from '../../scenarios/index.js';
import { check } from '../check.js';
import { MUTANTS, weatherFor } from '../mutants/registry.js';
import { MONITORED } from '../property-lists.js';
import { failsLike, shrink } from '../shrink.js';
import { explain } from './explain.js';
import { oneStepsOf } from './reduce.js';

/** The schedules one step simpler that break the property as well: there are none if it is 1-minimal. */
function failingSteps(schedule: Schedule, property: PropertyId): Schedule[] {
  const fails = failsLike(schedule, property);
  return [...oneStepsOf(schedule)].filter(fails);
}

it.each(MUTANTS)('what gives $id away is shrunk until nothing more can go', async (mutant) => {
  for (const seed of ['minimal', 'small']) {
    const search = { weather: weatherFor(mutant), seed: `${seed} ${mutant.id}`, runs: 10_000, properties: MONITORED };
    const { counterexample } = await check({ ...search, shrink: false });
    if (counterexample === null) throw new Error(`${mutant.id} got away`);
    const { property, schedule: found } = counterexample;
    const { schedule } = shrink(found, property);
    // It did not become another failure on the way.
    expect(failsLike(found, property)(schedule)).toBe(true);
    expect(failingSteps(schedule, property)).toEqual([]);
    expect(explain(schedule, property).filter(({ without }) => without === 'fails')).toEqual([]);
  }
});
