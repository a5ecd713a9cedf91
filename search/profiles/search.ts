import { PROFILES } from '../../deviations/index.js';
import { assumptions } from '../../properties/assumptions.js';
import { SEARCHED } from '../../properties/property-lists.js';
import type { PropertyId } from '../../scenarios/index.js';
import { RandomStreams } from '../../sim/index.js';
import { type FaultModel, WITHIN_ASSUMPTIONS } from '../fault-model.js';
import { generateRun, recordRun } from '../generated-run.js';

/** In which run of a search a property was violated first, from 0, by a schedule that keeps all assumptions, and by any. */
interface Broken {
  readonly inside: ReadonlyMap<PropertyId, number>;
  readonly anywhere: ReadonlyMap<PropertyId, number>;
}

/** Fencing is left out, since no known client has it. */
const LOOKED_FOR: readonly PropertyId[] = SEARCHED.filter((property) => property !== 'fencing');

/** What breaks in so many runs with the policy of a profile: those of `check --profile` with the same seed. */
export function brokenProperties(profile: string, runs: number, seed = '1'): Broken {
  const policy = PROFILES[profile];
  if (policy === undefined) throw new RangeError(`"${profile}" is not a profile`);
  const faultModel: FaultModel = { ...WITHIN_ASSUMPTIONS, policy };
  const streams = new RandomStreams(seed);
  const inside = new Map<PropertyId, number>();
  const anywhere = new Map<PropertyId, number>();
  for (let run = 0; run < runs && inside.size < LOOKED_FOR.length; run++) {
    const { violations } = generateRun(faultModel, streams, run).monitors;
    const found = LOOKED_FOR.filter((property) => violations.some((it) => it.property === property));
    for (const property of found) if (!anywhere.has(property)) anywhere.set(property, run);
    const fresh = found.filter((property) => !inside.has(property));
    if (fresh.length === 0) continue;
    const { schedule } = recordRun(faultModel, streams, run);
    if (assumptions(schedule, policy).length > 0) continue;
    for (const property of fresh) inside.set(property, run);
  }
  return { inside, anywhere };
}
