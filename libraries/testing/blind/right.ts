import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { LockUnderTest, MakeLock } from '../../testing.js';
import { DEL_IF, inTime, lockOf, RIGHT, sleep } from './parts.js';

/** A lock that keeps its word, in some style. */
export interface RightLock {
  readonly style: string;
  readonly make: MakeLock;
}

const majority = (nodes: readonly Redis[]): number => Math.floor(nodes.length / 2) + 1;

/** Stops asking as soon as the outcome is certain, one node after the other. */
class InTurn {
  readonly #nodes: Redis[];

  constructor(nodes: Redis[]) {
    this.#nodes = nodes;
  }

  async acquire(resource: string, ttl: number): Promise<object | undefined> {
    const key = `{${resource}}:mutex`;
    for (let tries = 3; tries > 0; tries--) {
      const value = randomBytes(12).toString('base64url');
      const began = process.hrtime.bigint();
      const left = (): number => ttl * 0.985 - 4 - Number(process.hrtime.bigint() - began) / 1e6;
      let [yes, closed] = [0, false];
      const erase = (node: Redis) => inTime<unknown>(node.eval(DEL_IF, 1, key, value), 90, null);
      for (const [i, node] of this.#nodes.entries()) {
        const sent = node.set(key, value, 'PX', ttl, 'NX');
        const again = (): void => void (closed && erase(node));
        sent.then(again, again);
        if ((await inTime<unknown>(sent, 90, null)) === 'OK') yes++;
        const rest = this.#nodes.length - i - 1;
        if (yes >= majority(this.#nodes) || yes + rest < majority(this.#nodes)) break;
      }
      const unlock = async (): Promise<void> => {
        closed = true;
        for (const node of this.#nodes) await erase(node);
      };
      if (yes >= majority(this.#nodes) && left() > 0) return { unlock, remaining: () => (closed ? 0 : left()) };
      await unlock();
      if (tries > 1) await sleep(25 * 2 ** (3 - tries) + Math.random() * 100);
    }
    return undefined;
  }
}

/** No time-out anywhere: it goes on at the majority, and releases without waiting. */
function impatient(nodes: Redis[]): LockUnderTest {
  return {
    async acquire(key, ttl) {
      for (let i = 0; i < 4; i++, await sleep(30 + Math.random() * 90)) {
        const [id, end] = [randomUUID(), performance.now() + ttl - ttl / 64 - 6];
        let over = false;
        const free = (): void => {
          over = true;
          for (const node of nodes) node.eval(DEL_IF, 1, key, id).catch(() => {});
        };
        const won = await new Promise<boolean>((resolve) => {
          let [yes, no] = [0, 0];
          for (const node of nodes) {
            const answered = (isYes: boolean): void => {
              if (isYes) yes++;
              else no++;
              if (yes >= majority(nodes)) resolve(true);
              else if (no > nodes.length - majority(nodes)) resolve(false);
              if (over) node.eval(DEL_IF, 1, key, id).catch(() => {});
            };
            node.set(key, id, 'PX', ttl, 'NX').then(
              (it) => answered(it === 'OK'),
              () => answered(false),
            );
          }
        });
        if (won && performance.now() < end) return { isValid: () => !over && performance.now() < end, release: free };
        free();
      }
      return false;
    },
  };
}

/** Leaves time-outs to the connections; its tokens name the process. */
class Trusting {
  readonly nodes: Redis[];
  readonly name = `${hostname()}/${process.pid}`;
  made = 0;

  constructor(nodes: Redis[]) {
    this.nodes = nodes;
  }

  async acquire(key: string, ttl: number): Promise<object | null> {
    for (let i = 0; i < 3; i++) {
      const token = `${this.name}/${Date.now()}/${this.made++}`;
      const expiresAt = Date.now() + Math.floor(ttl * 0.98) - 5;
      const votes = await Promise.allSettled(this.nodes.map((node) => node.set(key, token, 'PX', ttl, 'NX')));
      const release = () => Promise.allSettled(this.nodes.map((node) => node.eval(DEL_IF, 1, key, token)));
      const yes = votes.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
      if (yes >= majority(this.nodes) && Date.now() < expiresAt) return { expiresAt, release };
      await release();
      await sleep(50 + 100 * Math.random());
    }
    return null;
  }
}

interface Held {
  isHeld(): boolean;
  release(): Promise<void>;
}

/** Runs a routine, with a signal from a timer. */
function routines(nodes: Redis[]): LockUnderTest {
  return {
    async using(resource, ttl, routine) {
      let lock = null as Held | null;
      let from = 0;
      for (let i = 0; i < 5 && lock === null; i++) {
        from = performance.now();
        lock = (await lockOf(nodes, { pauseMs: () => null }).acquire?.(resource, ttl)) as typeof lock;
        if (lock === null) await sleep(20 * 2 ** i * (1 + Math.random()));
      }
      if (lock === null) throw new Error(`${resource} is taken`);
      const lost = new AbortController();
      const end = setTimeout(() => lost.abort(), Math.max(0, from + ttl - ttl / 50 - 10 - performance.now()));
      try {
        await routine(lost.signal);
      } finally {
        clearTimeout(end);
        await lock.release();
      }
    },
  };
}

type WithScript = Redis & { mutex(key: string, op: string, token: string, ttl: string): Promise<number> };

/** One script for everything, defined on the connection. */
function scripted(nodes: Redis[]): LockUnderTest {
  const lua = `local v = redis.call('GET', KEYS[1])
if ARGV[1] == 'lock' then
  if v then return 0 end
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
if v ~= ARGV[2] then return 0 end
if ARGV[1] == 'renew' then return redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return redis.call('DEL', KEYS[1])`;
  for (const node of nodes) node.defineCommand('mutex', { numberOfKeys: 1, lua });
  const ask = (node: Redis, op: string, key: string, token: string, ttl = 0): Promise<number> =>
    (node as WithScript).mutex(key, op, token, String(ttl));
  return lockOf(nodes, {
    take: async (node, key, token, ttl) => (await ask(node, 'lock', key, token, ttl)) === 1,
    drop: (node, key, token) => ask(node, 'unlock', key, token),
    prolong: async (node, key, token, ttl) => (await ask(node, 'renew', key, token, ttl)) === 1,
  });
}

/** An object with a flag that a timer takes down. */
function flagged(nodes: Redis[]): LockUnderTest {
  return {
    async acquire(resource, ttl) {
      const from = performance.now();
      const held = (await lockOf(nodes, { pauseMs: (n) => (n < 2 ? 70 + 80 * Math.random() : null) }).acquire?.(
        resource,
        ttl,
      )) as Held | null;
      if (held === null) return null;
      const until = from + ttl * 0.97 - 10;
      if (performance.now() >= until) {
        await held.release();
        return null;
      }
      const lock = { isAcquired: true, release: async () => {} };
      // It may have taken several attempts, and the latest began no earlier than this.
      const timer = setTimeout(() => {
        lock.isAcquired = false;
      }, until - performance.now());
      lock.release = async () => {
        lock.isAcquired = false;
        clearTimeout(timer);
        await held.release();
      };
      return lock;
    },
  };
}

/** Tries until it has the lock or half a minute is over; those of one process wait for each other. */
function queued(nodes: Redis[]): LockUnderTest {
  const turns = new Map<string, Promise<unknown>>();
  return {
    async acquire(resource, ttl) {
      const before = turns.get(resource) ?? Promise.resolve();
      const deadline = performance.now() + 30_000;
      const mine = before.then(() =>
        lockOf(nodes, {
          pauseMs: () => (performance.now() < deadline ? 60 + Math.random() * 120 : null),
        }).acquire?.(resource, ttl),
      );
      turns.set(
        resource,
        mine.catch(() => {}),
      );
      return mine;
    },
  };
}

/** Twelve and more styles of locks that hold. */
export const RIGHT_LOCKS: readonly RightLock[] = [
  { style: 'all at once, isHeld() compares clocks', make: ({ nodes }) => lockOf(nodes) },
  { style: 'in turn, stops when it is certain, hrtime.bigint', make: ({ nodes }) => new InTurn(nodes) },
  { style: 'no time-out, settles at the majority, releases without waiting', make: ({ nodes }) => impatient(nodes) },
  { style: 'time-outs of the connection, tokens of host and pid', make: ({ nodes }) => new Trusting(nodes) },
  { style: 'using() with a signal of a timer', make: ({ nodes }) => routines(nodes) },
  { style: 'one script for all, SET and PEXPIRE in it', make: ({ nodes }) => scripted(nodes) },
  { style: 'a flag that a timer takes down', make: ({ nodes }) => flagged(nodes) },
  { style: 'tries on, and has a queue in the process', make: ({ nodes }) => queued(nodes) },
  {
    style: 'a transaction of SET NX and PTTL',
    make: ({ nodes }) =>
      lockOf(nodes, {
        take: async (node, key, token, ttl) => {
          const replies = await node.multi().set(key, token, 'PX', ttl, 'NX').pttl(key).exec();
          return replies?.[0]?.[1] === 'OK';
        },
      }),
  },
  {
    style: 'looks with EXISTS first',
    make: ({ nodes }) =>
      lockOf(nodes, {
        take: async (node, key, token, ttl) => (await node.exists(key)) === 0 && RIGHT.take(node, key, token, ttl),
      }),
  },
  {
    style: 'release() rejects when fewer than a majority had the key',
    make: ({ nodes }) => ({
      async acquire(resource, ttl) {
        const token = randomUUID();
        const inner = lockOf(nodes, { token: () => token, pauseMs: () => null });
        const lock = (await inner.acquire?.(resource, ttl)) as Held | null;
        if (lock === null) return null;
        let done = false;
        return {
          isHeld: () => !done && lock.isHeld(),
          async release() {
            done = true;
            const replies = await Promise.all(
              nodes.map((node) => inTime<unknown>(node.eval(DEL_IF, 1, resource, token), 200, null)),
            );
            await lock.release();
            if (replies.filter((it) => it === 1).length < majority(nodes)) throw new Error('the lock had expired');
          },
        };
      },
    }),
  },
  {
    style: 'keys live longer than it asks for, SETNX is not used, SET EX rounded up',
    make: ({ nodes }) =>
      lockOf(nodes, {
        take: async (node, key, token, ttl) =>
          (await node.set(`lock:${key}`, token, 'EX', Math.ceil(ttl / 1000) + 1, 'NX')) === 'OK',
        drop: (node, key, token) => node.eval(DEL_IF, 1, `lock:${key}`, token),
        prolong: (node, key, token, ttl) => RIGHT.prolong(node, `lock:${key}`, token, ttl),
      }),
  },
  {
    style: 'an allowance of a twentieth, rejects when it is taken',
    make: ({ nodes }) => {
      const inner = lockOf(nodes, { until: (sentAt, _, ttl) => sentAt + ttl * 0.95 - 20, waitMs: 60 });
      return {
        acquire: async (resource, ttl) => {
          const lock = await inner.acquire?.(resource, ttl);
          if (lock === null) throw new Error('taken');
          return lock;
        },
      };
    },
  },
];
