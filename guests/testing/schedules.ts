import type { LockPlan, Schedule } from '../../scenarios/index.js';

/** One lock, held for `holdUs`. */
export function plan(atUs: number, holdUs: number | null, change: Partial<LockPlan> = {}): LockPlan {
  return { atUs, resources: ['a'], ttlMs: 1_000, holdUs, extensions: [], writes: [], jitterPpm: [], ...change };
}

/** Five nodes, a clean network, and these locks by client. */
export function scheduleOf(locks: readonly (readonly LockPlan[])[], change: Partial<Schedule> = {}): Schedule {
  return {
    schema: 'lockstep.schedule/1',
    cluster: {
      nodes: 5,
      delayUs: 1_000,
      distances: [],
      link: 'fifo',
      expiry: 'after',
      resolutionUs: 1000,
      persistence: 'none',
      replicaLagUs: null,
      clocks: [],
    },
    policy: { profile: 'reference', with: { clock: 'wall' } },
    clients: locks.map((it, i) => ({ id: `c${i + 1}`, locks: it })),
    faults: [],
    fates: [],
    untilUs: 20_000_000,
    ...change,
  };
}
