import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { LockUnderTest } from '../../testing.js';

/** With the command that is defined on it. */
type Scripted = Redis & {
  unlockKey(key: string, token: string, callback: (error: Error | null, reply?: unknown) => void): void;
};

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** How long a lock lasts from `startedAt` on, ms: less what clocks may differ by. */
function validUntil(startedAt: number, ttlMs: number): number {
  return startedAt + ttlMs - ttlMs / 100 - 2;
}

/** For one node: a key that only its owner deletes. It says of itself how long it lasts, and can be extended. */
export class OneNodeLock {
  private readonly node: Redis;

  constructor(node: Redis) {
    this.node = node;
  }

  async acquire(resource: string, ttlMs: number): Promise<{ expiration: number; release(): Promise<unknown> } | null> {
    const token = crypto.randomUUID();
    const release = (): Promise<unknown> => this.node.eval(UNLOCK, 1, resource, token).catch(() => {});
    const expiration = Date.now() + ttlMs - ttlMs / 100 - 2;
    const reply = await this.node.set(resource, token, 'PX', ttlMs, 'NX').catch(() => null);
    if (reply === 'OK' && Date.now() < expiration) return { expiration, release };
    await release();
    return null;
  }
}

/** First style: a class whose locks are objects with an end and a release. Tells the time by `process.hrtime.bigint`. */
export class HandleLock {
  private readonly nodes: readonly Redis[];

  constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
  }

  private nowMs(): number {
    return Number(process.hrtime.bigint() / 1_000_000n);
  }

  async acquire(resource: string, ttlMs: number): Promise<object> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const token = crypto.randomUUID();
      const end = validUntil(this.nowMs(), ttlMs);
      const votes = await this.vote((node) => node.set(resource, token, 'PX', ttlMs, 'NX'), 'OK');
      const release = (): Promise<number> => this.vote((node) => node.eval(UNLOCK, 1, resource, token), 1);
      if (votes > this.nodes.length / 2 && this.nowMs() < end) {
        return { remaining: () => end - this.nowMs(), release };
      }
      await release();
      await sleep(20 + Math.random() * 50, undefined, { signal: AbortSignal.timeout(1_000) });
    }
    throw new Error('not acquired');
  }

  private async vote(ask: (node: Redis) => Promise<unknown>, yes: unknown): Promise<number> {
    const replies = await Promise.allSettled(this.nodes.map(ask));
    return replies.filter((it) => it.status === 'fulfilled' && it.value === yes).length;
  }
}

/** What a held lock is asked for: whether it is still held, which no timer of its own tells it. */
export type Asked = 'isValid' | 'isHeld' | 'isExpired' | 'get isHeld';

/** Sets a key where there is none, without a word that says so. */
const TAKE = `
if redis.call('get', KEYS[1]) then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

/** A lock that compares clocks when it is asked, and not before. It takes keys by a script of its own. */
export class AskedLock {
  private readonly nodes: readonly Redis[];
  private readonly asked: Asked;
  private readonly longerMs: number;

  /** @param longerMs - What it says to be held for beyond its validity, which is wrong unless it is 0. */
  constructor(nodes: readonly Redis[], asked: Asked, longerMs = 0) {
    this.nodes = nodes;
    this.asked = asked;
    this.longerMs = longerMs;
  }

  async acquire(resource: string, ttlMs: number): Promise<object | null> {
    const [token, end] = [crypto.randomUUID(), validUntil(performance.now(), ttlMs) + this.longerMs];
    const release = (): Promise<unknown> =>
      Promise.allSettled(this.nodes.map((node) => node.eval(UNLOCK, 1, resource, token)));
    const votes = await Promise.allSettled(this.nodes.map((node) => node.eval(TAKE, 1, resource, token, ttlMs)));
    const isHeld = (): boolean => performance.now() < end;
    if (votes.filter((it) => it.status === 'fulfilled' && it.value === 1).length > this.nodes.length / 2 && isHeld()) {
      return Object.assign(HANDLES[this.asked](isHeld), { release });
    }
    await release();
    return null;
  }
}

/** Handles by what they can be asked. */
const HANDLES: Readonly<Record<Asked, (isHeld: () => boolean) => object>> = {
  isValid: (isHeld) => ({ isValid: isHeld }),
  isHeld: (isHeld) => ({ isHeld }),
  isExpired: (isHeld) => ({ isExpired: () => !isHeld() }),
  'get isHeld': (isHeld) =>
    Object.create({
      get isHeld() {
        return isHeld();
      },
    }),
};

/** Second style: functions that give out tokens, with callbacks and a script as a command. */
export function tokenLock(nodes: readonly Redis[]): LockUnderTest {
  const clients = nodes as readonly Scripted[];
  for (const node of clients) node.defineCommand('unlockKey', { lua: UNLOCK, numberOfKeys: 1 });
  const unlock = (resource: string, token: string): Promise<unknown> =>
    Promise.all(clients.map((node) => new Promise((resolve) => node.unlockKey(resource, token, resolve))));
  return {
    async acquire(resource, ttlMs) {
      const [startedAt, token] = [Date.now(), randomBytes(16).toString('hex')];
      const replies = await Promise.all(
        clients.map((node) => node.pipeline().call('set', resource, token, 'PX', ttlMs, 'NX').exec()),
      );
      const votes = replies.filter((reply) => reply?.[0]?.[1] === 'OK').length;
      const until = validUntil(startedAt, ttlMs);
      if (votes > clients.length / 2 && Date.now() < until) return { token, validUntil: new Date(until) };
      await unlock(resource, token);
      return null;
    },
    release: (held, resource) => unlock(resource, (held as { readonly token: string }).token),
  };
}

/**
 * Third style: the lock is never handed out; a routine runs while it is held, and hears of the end by a signal.
 *
 * @param lateMs - How long after the end it hears of it, which is wrong unless it is 0.
 */
export function routineLock(nodes: readonly Redis[], lateMs = 0): LockUnderTest {
  const locks = new HandleLock(nodes);
  return {
    async using(resource, ttlMs, routine) {
      const lock = (await locks.acquire(resource, ttlMs)) as { remaining(): number; release(): Promise<unknown> };
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(), Math.max(0, lock.remaining() + lateMs));
      try {
        await routine(controller.signal);
      } finally {
        clearTimeout(timer);
        await lock.release();
      }
    },
  };
}
