import type { Schedule } from '../scenarios/index.js';
import type { Program } from './program.js';

/** How far replicas are behind that are in order, µs. */
export const REPLICA_LAG_US = 3_000;

/** Whether a lock asks for what its node's replica has: it has one then. */
export function waitsForReplica({ sources }: Program): boolean {
  return sources.some(({ text }) => /['"`]WAIT['"`]|\.wait\(\s*\d/i.test(text));
}

/** Each node has a replica, where a lock asks for that. */
export function withReplica(program: Program, schedule: Schedule): Schedule {
  const { cluster } = schedule;
  if (cluster.replicaLagUs !== null || !waitsForReplica(program)) return schedule;
  return { ...schedule, cluster: { ...cluster, replicaLagUs: REPLICA_LAG_US } };
}
