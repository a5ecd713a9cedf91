import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// Everything about a lock is one script: look who has it, then act.
const SCRIPTS = {
  take: `
    local owner = redis.call('get', KEYS[1])
    if owner then return 0 end
    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1`,
  keep: `
    local owner = redis.call('get', KEYS[1])
    if owner ~= ARGV[1] then return 0 end
    return redis.call('pexpire', KEYS[1], ARGV[2])`,
  drop: `
    local owner = redis.call('get', KEYS[1])
    if owner ~= ARGV[1] then return 0 end
    return redis.call('del', KEYS[1])`,
};

class TimeoutError extends Error {}

function run(redis: Redis, script: keyof typeof SCRIPTS, key: string, args: (string | number)[], ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`${script} took longer than ${ms} ms`)), ms);
  });
  return Promise.race([redis.eval(SCRIPTS[script], 1, key, ...args), timeout]).finally(() => clearTimeout(timer));
}

const safeFor = (ttl: number) => ttl - Math.ceil(ttl * 0.01) - 2;

class SimpleLock {
  private released = false;
  private extending = false;

  constructor(
    private readonly redis: Redis,
    readonly key: string,
    private readonly id: string,
    private deadline: number,
  ) {}

  isHeld(): boolean {
    return !this.released && performance.now() < this.deadline;
  }

  async extend(ttl: number): Promise<boolean> {
    if (this.extending || !this.isHeld()) return false;
    this.extending = true;
    const deadline = performance.now() + safeFor(ttl);
    this.deadline = Math.min(this.deadline, deadline);
    try {
      if ((await run(this.redis, 'keep', this.key, [this.id, ttl], ttl / 3)) !== 1) return false;
      this.deadline = deadline;
      return this.isHeld();
    } catch {
      return false;
    } finally {
      this.extending = false;
    }
  }

  async release(): Promise<void> {
    this.released = true;
    // If this does not get through, the TTL does it.
    await run(this.redis, 'drop', this.key, [this.id], 1000).catch(() => {});
  }
}

export const make: MakeLock = ({ nodes: [redis] }) => ({
  async acquire(resource, ttl) {
    const key = `lock:${resource}`;
    for (let tries = 0; tries < 8; tries++) {
      const id = randomUUID();
      const deadline = performance.now() + safeFor(ttl);
      const taken = await run(redis, 'take', key, [id, ttl], ttl / 3).catch(() => null);
      if (taken === 1 && performance.now() < deadline) return new SimpleLock(redis, key, id, deadline);
      // No answer or a late one: the key may be ours.
      if (taken !== 0) await run(redis, 'drop', key, [id], ttl / 3).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 40 + Math.floor(Math.random() * 60)));
    }
    return null;
  },
});
