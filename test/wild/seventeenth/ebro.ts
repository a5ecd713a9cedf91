import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

type Lock = { key: string; value: string; ttl: number; expiresTick: number; closed: boolean; isHeld(): boolean };

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class Locker {
  private readonly quorum: number;

  constructor(private readonly servers: Redis[]) {
    this.quorum = Math.floor(servers.length / 2) + 1;
  }

  async acquire(resource: string, ttl: number): Promise<Lock | null> {
    const end = performance.now() + ttl * 3;
    while (performance.now() < end) {
      const lock = this.newLock(resource, ttl);
      const start = performance.now();
      const votes = await this.vote(ttl, async (server) => {
        const reply = await server.set(lock.key, lock.value, 'PX', ttl, 'NX');
        if (reply === 'OK' && lock.closed) this.forget(server, lock);
        return reply === 'OK';
      });
      lock.expiresTick = start + this.usable(ttl);
      if (votes >= this.quorum && lock.isHeld()) return lock;
      await this.release(lock);
      await sleep(ttl * (0.03 + Math.random() * 0.09));
    }
    return null;
  }

  /** Sets a new time to live on a majority of the servers. PEXPIRE says 0 where the lock has expired. */
  async extend(lock: Lock, ttl: number): Promise<boolean> {
    if (lock.closed) return false;
    const start = performance.now();
    const votes = await this.vote(ttl, async (server) => (await server.pexpire(lock.key, ttl)) === 1);
    const expiresTick = start + this.usable(ttl);
    if (votes < this.quorum || performance.now() >= expiresTick) return false;
    lock.expiresTick = expiresTick;
    return true;
  }

  async release(lock: Lock): Promise<void> {
    lock.closed = true;
    const told = new Set<Redis>();
    await this.vote(lock.ttl / 2, async (server) => {
      await server.eval(UNLOCK_SCRIPT, 1, lock.key, lock.value);
      told.add(server);
      return true;
    });
    for (const server of this.servers) if (!told.has(server)) this.forget(server, lock);
  }

  private forget(server: Redis, lock: Lock): void {
    server.eval(UNLOCK_SCRIPT, 1, lock.key, lock.value).catch(() => {});
  }

  private newLock(resource: string, ttl: number): Lock {
    return {
      key: `locks:${resource}`,
      value: randomUUID(),
      ttl,
      expiresTick: 0,
      closed: false,
      isHeld() {
        return !this.closed && performance.now() < this.expiresTick;
      },
    };
  }

  private usable(ttl: number): number {
    return ttl - (ttl * 0.01 + 2);
  }

  private async vote(ttl: number, ask: (server: Redis) => Promise<boolean>): Promise<number> {
    const one = (server: Redis) =>
      new Promise<number>((resolve) => {
        const timer = setTimeout(resolve, ttl / 4, 0);
        ask(server)
          .then((yes) => resolve(yes ? 1 : 0))
          .catch(() => resolve(0))
          .finally(() => clearTimeout(timer));
      });
    const votes = await Promise.all(this.servers.map(one));
    return votes.reduce((a, b) => a + b, 0);
  }
}

export const make: MakeLock = ({ nodes }) => {
  const locker = new Locker(nodes);
  return {
    acquire: (resource, ttlMs) => locker.acquire(resource, ttlMs),
    extend: (held, ttlMs) => locker.extend(held as Lock, ttlMs),
    release: (held) => locker.release(held as Lock),
  };
};
