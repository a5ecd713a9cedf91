import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { LockUnderTest, MakeLock } from '../../testing.js';
import { DEL_IF, inTime, lockOf, type Parts, PEXPIRE_IF, RIGHT, sleep } from './parts.js';

/** A lock with one defect, and the kinds of failure that name it. */
export interface WrongLock {
  readonly defect: string;
  readonly kinds: readonly string[];
  readonly make: MakeLock;
}

interface Held {
  isHeld(): boolean;
  release(): Promise<void>;
  extend(ms: number): Promise<boolean>;
}

type Nodes = readonly Redis[];

const HELD_TWICE = ['belief', 'state', 'margin', 'continuity', 'acquisition'];

function part(defect: string, kinds: readonly string[], change: Partial<Parts>): WrongLock {
  return { defect, kinds, make: ({ nodes }) => lockOf(nodes, change) };
}

/** A right lock around which something is wrong. */
function around(
  defect: string,
  kinds: readonly string[],
  wrap: (inner: (key: string, ttlMs: number) => Promise<Held | null>, nodes: Nodes) => LockUnderTest,
  change: Partial<Parts> = {},
): WrongLock {
  return {
    defect,
    kinds,
    make: ({ nodes }) => {
      const inner = lockOf(nodes, change);
      return wrap((key, ttlMs) => inner.acquire?.(key, ttlMs) as Promise<Held | null>, nodes);
    },
  };
}

let last = 0;

/** What counts votes, or tells the time, in a wrong way. */
const COUNTING: readonly WrongLock[] = [
  part('half of the nodes, rounded down, are enough', HELD_TWICE, { quorum: (nodes) => Math.floor(nodes / 2) }),
  part('half of the nodes, rounded up, are enough', HELD_TWICE, { quorum: (nodes) => Math.ceil(nodes / 2) }),
  part('any answer is a vote', HELD_TWICE, {
    take: async (node, key, token, ttl) => (await node.set(key, token, 'PX', ttl, 'NX')) !== undefined,
  }),
  part('an error is a vote', [...HELD_TWICE, 'unavailable'], {
    take: (node, key, token, ttl) => inTime(RIGHT.take(node, key, token, ttl), 120, true),
  }),
  part('all nodes are needed', ['unavailable'], { quorum: (nodes) => nodes }),
  {
    defect: 'asks three nodes that it chooses by chance, and two are enough',
    kinds: HELD_TWICE,
    make: ({ nodes }) => ({
      acquire(key, ttl) {
        const some = [...nodes];
        while (some.length > 3) some.splice(Math.floor(Math.random() * some.length), 1);
        return lockOf(some).acquire?.(key, ttl);
      },
    }),
  },
];

const TIMING: readonly WrongLock[] = [
  part('counts from when the answers are there', HELD_TWICE, {
    until: (_, answeredAt, ttl) => answeredAt + ttl - ttl / 80 - 3,
  }),
  part('does not look whether anything is left', HELD_TWICE, {
    isInTime: () => true,
  }),
  part('takes a TTL of so many ms for seconds', ['lifetime'], {
    take: async (node, key, token, ttl) => (await node.set(key, token, 'EX', ttl, 'NX')) === 'OK',
  }),
  part('whole seconds on the node, ms in the client', HELD_TWICE, {
    take: async (node, key, token, ttl) =>
      (await node.set(key, token, 'EX', Math.max(1, Math.floor(ttl / 1000)), 'NX')) === 'OK',
  }),
  part('adds the allowance', HELD_TWICE, { until: (sentAt, _, ttl) => sentAt + ttl + ttl / 100 + 2 }),
  part('holds one more second, for safety', HELD_TWICE, { until: (sentAt, _, ttl) => sentAt + ttl + 1_000 }),
];

const KEYS: readonly WrongLock[] = [
  // The PEXPIRE of one that has given up may come when another has the key.
  part('SETNX, and then PEXPIRE', ['lifetime', 'unavailable', 'state'], {
    take: async (node, key, token, ttl) => {
      if ((await node.setnx(key, token)) !== 1) return false;
      await node.pexpire(key, ttl);
      return true;
    },
  }),
  part('no TTL', ['lifetime', 'unavailable'], {
    take: async (node, key, token) => (await node.set(key, token, 'NX')) === 'OK',
  }),
  part('a PEXPIRE that nobody waits for, which goes to another key', ['lifetime', 'unavailable'], {
    take: async (node, key, token, ttl) => {
      const reply = await node.set(key, token, 'NX');
      node.pexpire(`lock:${key}`, ttl).catch(() => 0);
      return reply === 'OK';
    },
  }),
  part('GET, and then SET', HELD_TWICE, {
    take: async (node, key, token, ttl) =>
      (await node.get(key)) === null && (await node.set(key, token, 'PX', ttl)) === 'OK',
  }),
  part('SET without NX', HELD_TWICE, {
    take: async (node, key, token, ttl) => (await node.set(key, token, 'PX', ttl)) === 'OK',
  }),
];

const TOKENS: readonly WrongLock[] = [
  part('one token for all', ['token', ...HELD_TWICE], { token: () => 'locked' }),
  part('the time is the token', ['token', ...HELD_TWICE], { token: () => String(Date.now()) }),
  part('tokens of a counter of the process', ['token', ...HELD_TWICE], { token: () => String(++last % 3) }),
  part('tokens of one letter', ['token', ...HELD_TWICE], {
    token: () => 'abcdefgh'[Math.floor(Math.random() * 8)] ?? 'a',
  }),
  {
    defect: 'the token is kept in the object, and the next acquisition overwrites it',
    kinds: ['leak', 'token', ...HELD_TWICE],
    make: ({ nodes }) => {
      let token = '';
      const inner = lockOf(nodes, {
        token: () => {
          token = randomUUID();
          return token;
        },
        drop: (node, key) => node.eval(DEL_IF, 1, key, token),
      });
      return inner;
    },
  },
];

const RELEASES: readonly WrongLock[] = [
  part('DEL, without a look at the holder', HELD_TWICE, { drop: (node, key) => node.del(key) }),
  part('GET, and then DEL', ['leak', ...HELD_TWICE], {
    drop: async (node, key, token) => (await node.get(key)) === token && node.del(key),
  }),
  part('releases only where it was granted', ['leak'], { toRelease: (_, granted) => granted }),
  part('cleans up only where it was granted', ['leak'], { toClean: (_, granted) => granted }),
  part('cleans up nothing', ['leak'], { toClean: () => [] }),
  around('release() deletes another key, and says nothing', ['leak'], (inner, nodes) => ({
    acquire: inner,
    async release(_, resource) {
      await Promise.all(nodes.map((node) => inTime<unknown>(node.del(`lock:${resource}`), 100, 0)));
    },
  })),
  around('release() swallows that its script does not compile', ['leak'], (inner, nodes) => ({
    acquire: inner,
    async release(_, resource) {
      await Promise.all(nodes.map((node) => node.eval('return redis.call(', 1, resource).catch(() => null)));
    },
  })),
  around('release() is nothing but a flag', ['leak'], (inner) => ({ acquire: inner, release: () => undefined })),
  around('release() always rejects', ['rejection'], (inner) => ({
    acquire: inner,
    async release(held) {
      await (held as Held).release();
      throw new TypeError('Cannot read properties of undefined');
    },
  })),
  around('release() of a lock that is over deletes what is there', HELD_TWICE, (inner, nodes) => ({
    async acquire(key, ttl) {
      const lock = await inner(key, ttl);
      if (lock === null) return null;
      const release = async (): Promise<void> => {
        const isHeld = lock.isHeld();
        await lock.release();
        if (!isHeld) await Promise.all(nodes.map((node) => inTime<unknown>(node.del(key), 100, 0)));
      };
      return { isHeld: lock.isHeld, release };
    },
  })),
];

const EXTENSIONS: readonly WrongLock[] = [
  part('extends whatever is there', [...HELD_TWICE], {
    prolong: async (node, key, _, ttl) => (await node.pexpire(key, ttl)) === 1,
  }),
  part('sets the key again to extend it', ['leak', ...HELD_TWICE], {
    prolong: async (node, key, token, ttl) => (await node.set(key, token, 'PX', ttl)) === 'OK',
  }),
  around('takes an extension that failed for one', HELD_TWICE, (_, nodes) => ({
    async acquire(key, ttl) {
      const token = randomUUID();
      let until = performance.now() + ttl - ttl / 80 - 3;
      const lock = (await lockOf(nodes, { token: () => token, pauseMs: () => null }).acquire?.(
        key,
        ttl,
      )) as Held | null;
      let over = false;
      return (
        lock && {
          isHeld: () => !over && performance.now() < until,
          async release() {
            over = true;
            await lock.release();
          },
          async extend(ms: number) {
            const asked = performance.now();
            await Promise.all(nodes.map((node) => inTime(RIGHT.prolong(node, key, token, ms), 150, false)));
            until = asked + ms - ms / 80 - 3;
            return true;
          },
        }
      );
    },
  })),
  around('a watchdog that goes on after the release', ['leak', ...HELD_TWICE], (_, nodes) => ({
    async acquire(key, ttl) {
      const token = randomUUID();
      const lock = (await lockOf(nodes, { token: () => token, pauseMs: () => null }).acquire?.(
        key,
        ttl,
      )) as Held | null;
      if (lock === null) return null;
      const renew = async (): Promise<void> => {
        await Promise.all(nodes.map((node) => inTime<unknown>(node.set(key, token, 'PX', ttl), 100, null)));
      };
      const timer = setInterval(() => void renew(), ttl / 3);
      const { release } = lock;
      setTimeout(() => clearInterval(timer), 4 * ttl);
      return { isHeld: lock.isHeld, release };
    },
  })),
  around('a watchdog that trusts its own timer and never looks at answers', HELD_TWICE, (_, nodes) => ({
    async acquire(key, ttl) {
      const token = randomUUID();
      const lock = (await lockOf(nodes, { token: () => token, pauseMs: () => null }).acquire?.(
        key,
        ttl,
      )) as Held | null;
      if (lock === null) return null;
      const lost = new AbortController();
      const timer = setInterval(
        () => void Promise.all(nodes.map((node) => inTime<unknown>(node.eval(PEXPIRE_IF, 1, key, token, ttl), 100, 0))),
        ttl / 2,
      );
      return {
        signal: lost.signal,
        async release() {
          clearInterval(timer);
          lost.abort();
          await lock.release();
        },
      };
    },
  })),
];

const WAITING: readonly WrongLock[] = [
  {
    defect: 'one node that rejects makes the acquisition reject',
    kinds: ['unavailable', 'hang', 'leak'],
    make: ({ nodes }) => ({
      async acquire(key, ttl) {
        const [token, end] = [randomUUID(), performance.now() + ttl * 0.98 - 5];
        const replies = await Promise.all(nodes.map((node) => node.set(key, token, 'PX', ttl, 'NX')));
        const release = () => Promise.allSettled(nodes.map((node) => node.eval(DEL_IF, 1, key, token)));
        if (replies.filter((it) => it === 'OK').length > nodes.length / 2 && performance.now() < end)
          return { release, isHeld: () => performance.now() < end };
        await release();
        return null;
      },
    }),
  },
  {
    defect: 'the clean-up has no time-out',
    kinds: ['hang'],
    make: ({ nodes }) => ({
      async acquire(key, ttl) {
        for (let i = 0; i < 4; i++, await sleep(50 + 100 * Math.random())) {
          const [token, end] = [randomUUID(), performance.now() + ttl * 0.98 - 5];
          const votes = await Promise.all(nodes.map((node) => inTime(RIGHT.take(node, key, token, ttl), 150, false)));
          const release = () => Promise.allSettled(nodes.map((node) => node.eval(DEL_IF, 1, key, token)));
          if (votes.filter(Boolean).length > nodes.length / 2 && performance.now() < end)
            return { release, isHeld: () => performance.now() < end };
          await release();
        }
        return null;
      },
    }),
  },
  {
    defect: 'one after the other, and as long for each as the TTL',
    kinds: ['unavailable', 'hang'],
    make: ({ nodes }) => ({
      async acquire(key, ttl) {
        const [token, end] = [randomUUID(), performance.now() + ttl * 0.98 - 5];
        let yes = 0;
        for (const node of nodes) if (await inTime(RIGHT.take(node, key, token, ttl), ttl / 2, false)) yes++;
        const release = () =>
          Promise.all(nodes.map((node) => inTime<unknown>(node.eval(DEL_IF, 1, key, token), 150, 0)));
        if (yes > nodes.length / 2 && performance.now() < end)
          return { release, isHeld: () => performance.now() < end };
        await release();
        return null;
      },
    }),
  },
  around('after an acquisition that failed it never tries again', ['unavailable', 'hang'], (inner) => {
    let isBroken = false;
    return {
      async acquire(key, ttl) {
        if (isBroken) return null;
        const lock = await inner(key, ttl);
        isBroken = lock === null;
        return lock;
      },
    };
  }),
  around('a mutex of the process that is not released when an acquisition fails', ['hang'], (inner) => {
    let turn: Promise<unknown> = Promise.resolve();
    return {
      async acquire(key, ttl) {
        await turn;
        let done = (): void => {};
        turn = new Promise<void>((resolve) => {
          done = resolve;
        });
        const lock = await inner(key, ttl);
        if (lock === null) return null;
        const release = async (): Promise<void> => {
          await lock.release();
          done();
        };
        return { isHeld: lock.isHeld, release };
      },
    };
  }),
];

/** Locks that are wrong, each in one way. */
export const WRONG_LOCKS: readonly WrongLock[] = [
  ...COUNTING,
  ...TIMING,
  ...KEYS,
  ...TOKENS,
  ...RELEASES,
  ...EXTENSIONS,
  ...WAITING,
];
