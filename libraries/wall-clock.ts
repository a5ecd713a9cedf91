import { type Fault, plainCluster, plainLock } from '../scenarios/index.js';
import { LibraryClient } from './library-client.js';
import { replayLibraries } from './run.js';
import type { LockFactory } from './session.js';

const TTL_MS = 10_000;
const TTL_US = TTL_MS * 1000;
const BACK_US = 5_000_000;

const SET_BACK: Fault = { kind: 'clock-step', process: 'c1', atUs: 2_000_000, byUs: -BACK_US };

/** For how long one client says that it holds a lock, µs; 0 if it gets none, or says nothing of an end. */
async function heldUs(subject: LockFactory, nodes: number, faults: readonly Fault[]): Promise<number> {
  const lock = plainLock(0, TTL_MS, { holdUs: 4 * TTL_US });
  const { run, world } = await replayLibraries(
    subject,
    {
      schema: 'lockstep.schedule/2',
      cluster: plainCluster(nodes),
      policy: { profile: 'reference', habits: { clock: 'wall' } },
      clients: [{ id: 'c1', locks: [lock] }],
      faults,
      fates: [],
      untilUs: 5 * TTL_US,
    },
    { trace: true },
  );
  const [client] = world.clients;
  if (client instanceof LibraryClient && client.holds.sayNothing) return 0;
  const [begin, end] = (['claim', 'expired'] as const).map((kind) => run.trace.find((it) => it.kind === kind)?.atUs);
  return begin === undefined || end === undefined ? 0 : end - begin;
}

/** Whether a client holds a lock for longer where somebody sets back the wall clock of its machine. */
export async function trustsWallClock(subject: LockFactory, nodes: number): Promise<boolean> {
  const usual = await heldUs(subject, nodes, []);
  return usual > 0 && (await heldUs(subject, nodes, [SET_BACK])) - usual > BACK_US / 2;
}
