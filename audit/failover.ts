import type { Fault } from '../scenarios/index.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { calm, rehearse, use } from './rehearsal.js';

/** Whether a lock is held that a replica which is far behind does not have: it takes over, and gives it to another process. */
export async function isLostInFailover(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<boolean> {
  const schedule = calm(1, [[use(10, ttlMs, ttlMs * 0.9)], [use(ttlMs / 2, ttlMs, 1)]], 4 * ttlMs * 1000);
  const atUs = Math.round((ttlMs / 4) * 1000);
  const faults: Fault[] = [
    { kind: 'crash', node: 'n0', atUs, restartAfterUs: null },
    { kind: 'failover', node: 'n0', atUs: atUs + 100_000 },
  ];
  const cluster = { ...schedule.cluster, replicaLagUs: 4 * ttlMs * 1000 };
  const attempts = await rehearse(bench, hosts, how, { ...schedule, cluster, faults });
  const [one, other] = ['c1', 'c2'].map((name) => attempts.find(({ client }) => client === name));
  return one !== undefined && other !== undefined && other.acquiredMs - one.acquiredMs < ttlMs * 0.8;
}
