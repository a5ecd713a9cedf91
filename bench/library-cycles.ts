import '../libraries/runtime/installed.js';
import FakeTimers from '@sinonjs/fake-timers';
import RedisMock from 'ioredis-mock';
import { handed } from '../libraries/adapters/connected.js';
import { LIBRARIES, type Library } from '../libraries/adapters/index.js';
import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from '../libraries/lock-factory.js';
import { type LockUnderTest, releaseOf } from '../libraries/lock-under-test.js';
import { replayLibraries } from '../libraries/run.js';
import { plainCluster, plainLock, type Schedule } from '../scenarios/index.js';
import { popAndPushPerSecond } from './calibration.js';
import { SOCKET_CLIENTS } from './socket-locks.js';

/*
 * One side of `bench:libraries`, in a process of its own: lock cycles of one library, without contention. Told how many, it
 * goes through them and says what they took.
 */

/** What so many cycles took. */
export interface Took {
  readonly cycles: number;
  readonly wallMs: number;
  readonly cpuMs: number;
  /** Pop-and-push of the calibration, right behind it, a CPU second. */
  readonly queue: number;
}

const TTL_MS = 10_000;
const NODES = 5;
/** Cycles of one simulated run: it may have 20 000 events. */
const CYCLES_A_RUN = 250;
/** A tenth of a second or so. */
const CALIBRATION_ROUNDS = 1_000_000;
const HOLD_US = 1_000;
const APART_US = 10_000;

const [, , id = '', side = ''] = process.argv;
const library = LIBRARIES.find((it) => it.id === id);
const cycles = side === 'simulated' ? simulated(await subjectNamed()) : await withFakeTimers(libraryNamed());
process.on('message', async (count: number) => {
  const cpu = process.cpuUsage();
  const from = process.hrtime.bigint();
  const done = await cycles(count);
  const wallMs = Number(process.hrtime.bigint() - from) / 1e6;
  const { user, system } = process.cpuUsage(cpu);
  const queue = popAndPushPerSecond(CALIBRATION_ROUNDS, cpuMsNow);
  process.send?.({ cycles: done, wallMs, cpuMs: (user + system) / 1000, queue } satisfies Took);
});
process.send?.('ready');

function cpuMsNow(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function libraryNamed(): Library {
  if (library === undefined) throw new Error(`no library ${id}`);
  return library;
}

/** A library on connections that it is handed, or a lock above a client that opens its own. */
async function subjectNamed(): Promise<LockFactory> {
  const makeFor = SOCKET_CLIENTS[id];
  if (makeFor !== undefined) return lockFactoryOf(id, makeFor('own'), undefined);
  return lockFactoryOf(id, await libraryNamed().load(handed), COMMAND_TIMEOUT_MS);
}

/** In the simulated world: a network, nodes with clocks of their own, monitors, drained by documented means. */
function simulated(subject: LockFactory): (count: number) => Promise<number> {
  return async (count) => {
    let done = 0;
    while (done < count) {
      const { world, violations, uncaught } = await replayLibraries(
        subject,
        inTurn(Math.min(CYCLES_A_RUN, count - done)),
      );
      const claims = world.clients.flatMap(({ locks }) => locks).filter(({ state }) => state.phase === 'released');
      if (violations.length > 0 || uncaught.length > 0 || claims.length === 0) throw new Error(`${id} does not go on`);
      done += claims.length;
    }
    return done;
  };
}

function inTurn(count: number): Schedule {
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(NODES),
    policy: { profile: 'reference', habits: { clock: 'wall' } },
    clients: [
      {
        id: 'c1',
        locks: Array.from({ length: count }, (_, i) => plainLock(i * APART_US, TTL_MS, { holdUs: HOLD_US })),
      },
    ],
    faults: [],
    fates: [],
    untilUs: count * APART_US + TTL_MS * 1000,
  };
}

/** As in a test suite: ioredis-mock for nodes, time that the test moves on. One clock for all, no network. */
async function withFakeTimers(it: Library): Promise<(count: number) => Promise<number>> {
  const make = await it.load(handed);
  const options = { commandTimeout: COMMAND_TIMEOUT_MS };
  const nodes = Array.from({ length: NODES }, (_, i) => new RedisMock({ ...options, host: `n${i}`, port: 6379 }));
  const client: LockUnderTest = await make({ nodes: nodes as never, addresses: [] as never });
  const settled = async (clock: FakeTimers.Clock, promise: Promise<unknown>): Promise<unknown> => {
    let over = false;
    const end = (): void => {
      over = true;
    };
    promise.then(end, end);
    while (!over) await clock.tickAsync(1);
    return promise;
  };
  return async (count) => {
    const toFake: FakeTimers.FakeMethod[] = [
      ...(['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const),
      ...(['setImmediate', 'clearImmediate', 'performance'] as const),
    ];
    const clock = FakeTimers.install({ toFake });
    try {
      for (let i = 0; i < count; i++) {
        const held = await settled(clock, Promise.resolve(client.acquire?.('a', TTL_MS)));
        if (held === null) throw new Error(`${id} does not acquire`);
        await settled(clock, Promise.resolve(releaseOf(client, held, 'a')));
      }
    } finally {
      clock.uninstall();
    }
    return count;
  };
}
