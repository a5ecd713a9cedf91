import { judge } from '../../properties/judge.js';
import { DEFAULT_SCOPE, type ExploreScope } from '../bounds.js';
import { scheduleOf } from '../counterexample.js';
import { type Exploration, type ExploreOptions, explore } from '../explore.js';

/** Visits the states of the small world with these changes. */
export function exploring(change: Partial<ExploreScope>, options: Partial<ExploreOptions> = {}): Exploration {
  return explore({ bounds: { ...DEFAULT_SCOPE, ...change }, ...options });
}

/** Properties that the counterexample of these bounds violates in the simulator. */
export function replayed(change: Partial<ExploreScope>, { path }: Exploration): readonly string[] {
  if (path === null) return [];
  const schedule = scheduleOf({ ...DEFAULT_SCOPE, ...change }, path);
  return judge(schedule, ['acquisition']).violations.map(({ property }) => property);
}
