import { type LockPlan, plainCluster, plainLock, type Schedule } from '../scenarios/index.js';
import type { ClientProcess } from '../sim/index.js';
import { loadLua } from '../wire/index.js';
import { LibraryClient } from './library-client.js';
import type { MakeLock } from './lock-under-test.js';
import { replayLibraries } from './run.js';
import { noCalls } from './seen.js';
import type { LockFactory } from './session.js';

export type { LockFactory } from './session.js';

/** What commands of connections reject after, ms, unless something else is asked for. */
export const COMMAND_TIMEOUT_MS = 500;

/** What listens to the clients of a lock, where they find what they connect to, and what is stored there. */
export type Surroundings = Pick<LockFactory, 'tap' | 'nodeAt' | 'otherServers' | 'stored' | 'edition'>;

/**
 * A client that can be run. It goes once through all that it can do, with nothing in its way: its scripts are known from
 * then on, and are in the caches of nodes at the beginning of a run, as on servers that have been in use. Once more it
 * acquires while a node is silent: whether it bounds how long it waits is the same in all of its runs.
 *
 * @param commandTimeoutMs - What commands of its connections reject after; `undefined` for never.
 * @param hooks - What listens to its clients, and where they find nodes; of how many nodes it knows the addresses. Default 3.
 */
export async function lockFactoryOf(
  name: string,
  make: MakeLock,
  commandTimeoutMs: number | undefined,
  { nodes = 3, ...hooks }: Surroundings & Pick<LockFactory, 'besides'> & { readonly nodes?: number } = {},
): Promise<LockFactory> {
  await loadLua();
  const seen = noCalls();
  const subject: LockFactory = { name, make, commandTimeoutMs, bounds: false, scripts: new Map(), seen, ...hooks };
  for (const extendsItself of [false, true])
    await replayLibraries(subject, onNodes(REHEARSAL, nodes), { extendsItself });
  const { monitors } = await replayLibraries({ ...subject, commandTimeoutMs: undefined }, onNodes(SILENT_NODE, nodes));
  const { world } = await replayLibraries(subject, onNodes(TWO_RESOURCES, nodes));
  const known = { ...subject, bounds: monitors.bounds, seen: { ...noCalls(), sockets: seen.sockets } };
  return { besides: besidesOf(world.clients[0]), areScriptsKnown: true, ...known };
}

/** Acquisitions of one process are kept apart by a client that gives something of its own for each. */
function besidesOf(client: ClientProcess | undefined): readonly string[] {
  if (!(client instanceof LibraryClient) || !client.holds.tellApart) return [];
  const [first, second] = client.locks.map(({ keys }) => keys[0]);
  return first === second ? ['a'] : ['a', 'b'];
}

function onNodes(schedule: Schedule, nodes: number): Schedule {
  return { ...schedule, cluster: plainCluster(nodes) };
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

const TWO_RESOURCES: Schedule = {
  ...REHEARSAL,
  clients: [{ id: 'c1', locks: [lock(0), { ...lock(2_500_000), resources: ['b'] }] }],
};

/** Long enough for any time-out of a client. */
const LONG_TTL_MS = 600_000;

const SILENT_NODE: Schedule = {
  ...REHEARSAL,
  clients: [{ id: 'c1', locks: [lock(0), plainLock(4_000_000, LONG_TTL_MS, { holdUs: 100_000 })] }],
  faults: [{ kind: 'pause', process: 'n0', atUs: 3_000_000, forUs: 2 * LONG_TTL_MS * 1000 }],
  untilUs: LONG_TTL_MS * 1000,
};
