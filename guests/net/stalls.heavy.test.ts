import { createRequire } from 'node:module';
import type { Redis } from 'ioredis';
import type { createClient } from 'redis';
import type { RedlockMutex } from 'redis-semaphore';
import { expect, it } from 'vitest';
import type { Fault } from '../../scenarios/index.js';
import { lockFactoryOf } from '../lock-factory.js';
import { replayGuests } from '../run.js';
import { plan, scheduleOf } from '../testing/schedules.js';
import type { LockUnderTest, MakeLock, NodeAddress } from '../testing.js';

/*
 * How long a lock waits, as it is with its default options, for one of five nodes whose process was killed 100 ms before.
 * The figures beside are those of real servers, killed likewise.
 */

const require = createRequire(import.meta.url);
const TTL_MS = 600_000;
const KILLED_US = 1_000_000;

interface Redlock4 {
  acquire(keys: readonly string[], ttlMs: number): Promise<{ unlock(): Promise<void> }>;
  on(event: 'clientError', listener: () => void): void;
}

function clientsOf(module: string, addresses: readonly NodeAddress[]): Redis[] {
  const { Redis: Client }: { Redis: new (url: string) => Redis } = require(module);
  return addresses.map(({ url }) => new Client(url).on('error', () => {}));
}

const LIBRARIES: Readonly<Record<string, (clients: Redis[]) => LockUnderTest>> = {
  'redis-semaphore': (clients) => {
    const { RedlockMutex: Mutex }: { RedlockMutex: typeof RedlockMutex } = require('redis-semaphore');
    return {
      async acquire(key) {
        const mutex = new Mutex(clients, key, { lockTimeout: TTL_MS });
        await mutex.acquire();
        return mutex;
      },
      release: (mutex) => (mutex as RedlockMutex).release(),
    };
  },
  'redlock 4': (clients) => {
    const Lock: new (clients: Redis[]) => Redlock4 = require('redlock4');
    const redlock = new Lock(clients);
    redlock.on('clientError', () => {});
    return {
      acquire: (key, ttlMs) => redlock.acquire([key], ttlMs),
      release: (held) => (held as { unlock(): Promise<void> }).unlock(),
    };
  },
};

/** From the call of acquire until it returns, and until the release has returned that comes 100 ms later, ms. */
async function waited(make: MakeLock, fault: Fault): Promise<readonly (number | null)[]> {
  const subject = await lockFactoryOf('a lock', make, undefined);
  const locks = [plan(0, 100_000, { ttlMs: TTL_MS }), plan(KILLED_US + 100_000, 100_000, { ttlMs: TTL_MS })];
  const schedule = scheduleOf([locks], { faults: [fault], untilUs: 600_000_000 });
  const { run } = await replayGuests(subject, schedule, { trace: true });
  const at = (kind: string): number | null => run.trace.filter((it) => it.kind === kind)[1]?.atUs ?? null;
  const [called, claimed, released] = [at('call') ?? 0, at('claim'), at('released')];
  const ms = (us: number | null, lessMs = 0): number | null => (us === null ? null : (us - called) / 1000 - lessMs);
  return [ms(claimed), ms(released, 100)];
}

const killed: Fault = { kind: 'crash', node: 'n0', atUs: KILLED_US, restartAfterUs: null };
const hung: Fault = { kind: 'pause', process: 'n0', atUs: KILLED_US, forUs: 10 ** 12 };

it.each([
  ['redis-semaphore', 'ioredis', 0, 10_442],
  ['redis-semaphore', 'ioredis6', 0, 73_221],
  ['redlock 4', 'ioredis', 1, 42_991],
  ['redlock 4', 'ioredis6', 1, 180_449],
])('%s above %s stalls as on real servers', async (library, module, which, realMs) => {
  const make: MakeLock = ({ addresses }) => LIBRARIES[library]?.(clientsOf(module, addresses)) ?? {};
  const stalled = (await waited(make, killed))[which] ?? 0;
  expect(Math.abs(stalled - realMs) / realMs).toBeLessThan(0.01);
  // A server that hangs gives no error, and no time-out is on by default.
  expect((await waited(make, hung))[0]).toBeNull();
});

/** What comes of a SET to a node that is dead, and after how long, ms. */
async function setOn(module: string): Promise<string | null> {
  let told: string | null = null;
  const make: MakeLock = async ({ addresses: [{ url }] }) => {
    const { createClient: create }: { createClient: typeof createClient } = require(module);
    const client = create({ url }).on('error', () => {});
    await client.connect();
    return {
      async acquire() {
        const since = performance.now();
        told = null;
        const tell = (what: string | null): void => {
          told = `${what} ${Math.round(performance.now() - since)}`;
        };
        await client.set('a', '1').then(tell, (error: Error) => tell(error.constructor.name));
        return { release: () => undefined };
      },
    };
  };
  const subject = await lockFactoryOf('a client', make, undefined);
  const schedule = scheduleOf([[plan(0, 0), plan(KILLED_US + 100_000, 0)]], { faults: [killed], untilUs: 600_000_000 });
  await replayGuests(subject, schedule, { trace: true });
  return told;
}

it('node-redis 6 gives up a command that waits for its connection after 5 s, node-redis 5 never does', async () => {
  expect(await setOn('redis')).toBe('TimeoutError 5000');
  expect(await setOn('redis5')).toBeNull();
});
