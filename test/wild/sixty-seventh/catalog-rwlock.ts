import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const READ_LOCK = `
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('SADD', KEYS[1], ARGV[1])
return 1
`;

const READ_UNLOCK = `return redis.call('SREM', KEYS[1], ARGV[1])`;

const WRITE_LOCK = `
if redis.call('SCARD', KEYS[1]) > 0 then
  return 0
end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0
`;

const WRITE_UNLOCK = `
if redis.call('GET', KEYS[2]) == ARGV[1] then
  return redis.call('DEL', KEYS[2])
end
return 0
`;

export interface RwLockOptions {
  /** How long a writer may keep the lock. */
  writeTtlMs?: number;
  /** How long to wait for the lock before giving up. */
  timeoutMs?: number;
  pollMs?: number;
}

/**
 * Many readers or one writer, across all instances of the service. Readers are
 * short and rare, so there is no precedence for writers: they wait for a gap.
 *
 * @example
 *   const rw = new RwLock(redis, 'catalog');
 *   await rw.read(() => exportCatalog());
 *   await rw.write((signal) => replaceCatalog(signal));
 */
export class RwLock {
  private readonly keys: [string, string];
  private readonly opts: Required<RwLockOptions>;

  constructor(private readonly redis: Redis, name: string, opts: RwLockOptions = {}) {
    this.keys = [`rw:{${name}}:readers`, `rw:{${name}}:writer`];
    this.opts = { writeTtlMs: 30_000, timeoutMs: 60_000, pollMs: 100, ...opts };
  }

  /** Runs `fn` while no writer is active. */
  async read<T>(fn: () => Promise<T>): Promise<T> {
    const id = randomUUID();
    try {
      await this.poll(() => this.eval(READ_LOCK, id));
      return await fn();
    } finally {
      await this.quietly(() => this.eval(READ_UNLOCK, id));
    }
  }

  /** Runs `fn` while nobody else reads or writes. The signal ends before the lock does. */
  async write<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = randomUUID();
    let sentAt = 0;
    try {
      await this.poll(() => {
        sentAt = Date.now();
        return this.eval(WRITE_LOCK, id, this.opts.writeTtlMs);
      });
      const left = sentAt + this.opts.writeTtlMs * 0.8 - Date.now();
      if (left <= 0) throw new Error('lock ran out before it could be used');
      return await fn(AbortSignal.timeout(Math.floor(left)));
    } finally {
      await this.quietly(() => this.eval(WRITE_UNLOCK, id));
    }
  }

  private async poll(attempt: () => Promise<number>): Promise<void> {
    const deadline = Date.now() + this.opts.timeoutMs;
    while ((await attempt()) !== 1) {
      if (Date.now() > deadline) throw new Error('timeout while waiting for the lock');
      await new Promise((r) => setTimeout(r, this.opts.pollMs * (0.5 + Math.random())));
    }
  }

  private async eval(script: string, ...args: (string | number)[]): Promise<number> {
    return Number(await this.redis.eval(script, 2, ...this.keys, ...args));
  }

  private async quietly(fn: () => Promise<unknown>) {
    for (let i = 0; i < 5; i++) {
      try {
        await fn();
        return;
      } catch (err) {
        console.warn('unlock failed, attempt %d:', i + 1, err);
        await new Promise((r) => setTimeout(r, 200 * 2 ** i));
      }
    }
  }
}

export function catalogLock() {
  const redis = new Redis(process.env.REDIS_URL!);
  return new RwLock(redis, 'catalog', { writeTtlMs: 45_000, timeoutMs: 120_000 });
}
