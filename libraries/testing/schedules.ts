import { type LockPlan, plainCluster, plainLock, type Schedule } from '../../scenarios/index.js';

/** One lock, held for `holdUs`. */
export function plan(atUs: number, holdUs: number | null, change: Partial<LockPlan> = {}): LockPlan {
  return plainLock(atUs, 1_000, { holdUs, ...change });
}

/** Five nodes, a clean network, and these locks by client. */
export function scheduleOf(locks: readonly (readonly LockPlan[])[], change: Partial<Schedule> = {}): Schedule {
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(5),
    policy: { profile: 'reference', habits: { clock: 'wall' } },
    clients: locks.map((it, i) => ({ id: `c${i + 1}`, locks: it })),
    faults: [],
    fates: [],
    untilUs: 20_000_000,
    ...change,
  };
}
