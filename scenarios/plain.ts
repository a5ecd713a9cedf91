import type { Cluster, Fate, LockPlan, ProcessName } from './schedule.js';

/**
 * Nodes in memory with right clocks, which no message misses: what a schedule that is written in code changes something of.
 *
 * @param nodes - 1 to 31.
 * @param changes - What is otherwise; messages take 1 ms each way where nothing is said.
 */
export function plainCluster(nodes: number, changes: Partial<Cluster> = {}): Cluster {
  return {
    nodes,
    delayUs: 1_000,
    distances: [],
    link: 'fifo',
    expiry: 'after',
    resolutionUs: 1000,
    persistence: 'none',
    replicaLagUs: null,
    clocks: [],
    ...changes,
  };
}

/** A lock on `a` for `ttlMs` that is asked for at `atUs` and never released, with these changes. */
export function plainLock(atUs: number, ttlMs: number, changes: Partial<LockPlan> = {}): LockPlan {
  return { atUs, resources: ['a'], ttlMs, holdUs: null, extensions: [], writes: [], jitterPpm: [], ...changes };
}

/** Fates that lose the acquisitions of a client on their way to these nodes. */
export function unreached(client: ProcessName, ...nodes: readonly ProcessName[]): Fate[] {
  return nodes.map((node) => ({ client, operation: 'acquire', node, direction: 'request', lost: true }));
}
