import { judge } from '../../properties/judge.js';
import { type ExploreBounds, SMALL_WORLD } from '../bounds.js';
import { scheduleOf } from '../counterexample.js';
import { type Exploration, type ExploreOptions, explore } from '../explore.js';

/** Visits the states of the small world with these changes. */
export function exploring(change: Partial<ExploreBounds>, options: Partial<ExploreOptions> = {}): Exploration {
  return explore({ bounds: { ...SMALL_WORLD, ...change }, ...options });
}

/** Properties that the counterexample of these bounds violates in the simulator. */
export function replayed(change: Partial<ExploreBounds>, { path }: Exploration): readonly string[] {
  if (path === null) return [];
  const schedule = scheduleOf({ ...SMALL_WORLD, ...change }, path);
  return judge(schedule, ['acquisition']).violations.map(({ property }) => property);
}
