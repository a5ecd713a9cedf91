import { createRequire } from 'node:module';
import type { Redis } from 'ioredis';
import type { createClient } from 'redis';
import type { RedlockMutex } from 'redis-semaphore';
import type { Fault } from '../../scenarios/index.js';
import { lockFactoryOf } from '../lock-factory.js';
import { replayLibraries } from '../run.js';
import type { LockUnderTest, MakeLock, NodeAddress } from '../testing.js';
import { plan, scheduleOf } from './schedules.js';

/*
 * How long a lock waits, as it is with its default options, for one of five nodes whose process was killed 100 ms before.
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

/** A stall that was measured on real servers. */
export interface Stall {
  readonly library: keyof typeof LIBRARIES;
  /** The client below it, by its package here. */
  readonly module: string;
  /** Which call stalls. */
  readonly call: 'acquire' | 'release';
  /** On five servers of which one was killed by SIGKILL, ms. */
  readonly realMs: number;
}

/** What was measured on real servers. */
export const STALLS: readonly Stall[] = [
  { library: 'redis-semaphore', module: 'ioredis', call: 'acquire', realMs: 10_442 },
  { library: 'redis-semaphore', module: 'ioredis6', call: 'acquire', realMs: 73_221 },
  { library: 'redlock 4', module: 'ioredis', call: 'release', realMs: 42_991 },
  { library: 'redlock 4', module: 'ioredis6', call: 'release', realMs: 180_449 },
];

/**
 * How long a call waits, ms; `null` for ever.
 *
 * @param fault - What happens to one of five nodes, 100 ms before the lock is asked for.
 */
export async function stallOf({ library, module, call }: Omit<Stall, 'realMs'>, fault: Fault): Promise<number | null> {
  const make: MakeLock = ({ addresses }) => LIBRARIES[library]?.(clientsOf(module, addresses)) ?? {};
  const [acquired = null, released = null] = await waited(make, fault);
  return call === 'acquire' ? acquired : released;
}

/** From the call of acquire until it returns, and until the release has returned that comes 100 ms later, ms. */
async function waited(make: MakeLock, fault: Fault): Promise<readonly (number | null)[]> {
  const subject = await lockFactoryOf('a lock', make, undefined);
  const locks = [plan(0, 100_000, { ttlMs: TTL_MS }), plan(KILLED_US + 100_000, 100_000, { ttlMs: TTL_MS })];
  const schedule = scheduleOf([locks], { faults: [fault], untilUs: 600_000_000 });
  const { run } = await replayLibraries(subject, schedule, { trace: true });
  const at = (kind: string): number | null => run.trace.filter((it) => it.kind === kind)[1]?.atUs ?? null;
  const [called, claimed, released] = [at('call') ?? 0, at('claim'), at('released')];
  const ms = (us: number | null, lessMs = 0): number | null => (us === null ? null : (us - called) / 1000 - lessMs);
  return [ms(claimed), ms(released, 100)];
}

/** The node's process is killed, for good. */
export const KILLED: Fault = { kind: 'crash', node: 'n0', atUs: KILLED_US, restartAfterUs: null };
/** It is stopped, for good. */
export const HUNG: Fault = { kind: 'pause', process: 'n0', atUs: KILLED_US, forUs: 10 ** 12 };

/** What comes of a SET by node-redis to a node that is dead, and after how long, ms: `TimeoutError 5000`; `null` for never. */
export async function setOn(module: string): Promise<string | null> {
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
  const schedule = scheduleOf([[plan(0, 0), plan(KILLED_US + 100_000, 0)]], { faults: [KILLED], untilUs: 600_000_000 });
  await replayLibraries(subject, schedule, { trace: true });
  return told;
}
