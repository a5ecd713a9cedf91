import { type LockPlan, plainCluster, plainLock, type Schedule } from '../scenarios/index.js';
import { loadLua } from '../wire/index.js';
import type { MakeLock } from './lock-under-test.js';
import { replayGuests } from './run.js';
import { type LockFactory, nothingSeen } from './session.js';

export type { LockFactory } from './session.js';

/**
 * A client that can be run. It goes once through all that it can do, with nothing in its way: its scripts are known from
 * then on, and are in the caches of nodes at the beginning of a run, as on servers that have been in use.
 *
 * @param commandTimeoutMs - What commands of its connections reject after; `undefined` for never.
 */
export async function lockFactoryOf(
  name: string,
  make: MakeLock,
  commandTimeoutMs: number | undefined,
): Promise<LockFactory> {
  await loadLua();
  const subject: LockFactory = { name, make, commandTimeoutMs, scripts: new Map(), seen: nothingSeen() };
  for (const extendsItself of [false, true]) await replayGuests(subject, REHEARSAL, { extendsItself });
  return { ...subject, seen: { ...nothingSeen(), sockets: subject.seen.sockets } };
}

function lock(atUs: number): LockPlan {
  return plainLock(atUs, 2_000, { holdUs: 1_900_000, extensions: [{ afterUs: 100_000, ttlMs: 2_000 }] });
}

const REHEARSAL: Schedule = {
  schema: 'lockstep.schedule/2',
  cluster: plainCluster(3),
  policy: { profile: 'reference', habits: { clock: 'wall' } },
  // The second one is refused, and cleans up.
  clients: [
    { id: 'c1', locks: [lock(0)] },
    { id: 'c2', locks: [lock(50_000)] },
  ],
  faults: [],
  fates: [],
  untilUs: 5_000_000,
};
