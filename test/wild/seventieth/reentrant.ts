import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { RedisClientType } from 'redis';

/**
 * Reentrant lock: a service method that holds `wallet:42` may call another
 * method that also locks `wallet:42`. Everyone else waits.
 *
 *   await lock.run('wallet:42', async () => { ... })
 */

const ENTER = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
local n = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if n <= 0 then redis.call('DEL', KEYS[1]) end
return n`;

const TOUCH = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;

export class ReentrantLock {
  constructor(
    private readonly client: RedisClientType,
    private readonly ttlMs = 20_000,
    private readonly waitMs = 10_000,
  ) {}

  async run<T>(name: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `rlock:${name}`;
    await this.enter(key);

    const lost = new AbortController();
    let safeUntil = performance.now() + this.ttlMs * 0.8;
    const timer = setInterval(async () => {
      const at = performance.now();
      try {
        const r = await this.call(TOUCH, key);
        if (r === 1) safeUntil = at + this.ttlMs * 0.8;
        else lost.abort(new Error(`${name}: lock lost`));
      } catch {
        if (performance.now() > safeUntil) lost.abort(new Error(`${name}: lock lost`));
      }
    }, this.ttlMs / 4);

    try {
      const out = await fn(lost.signal);
      lost.signal.throwIfAborted();
      return out;
    } finally {
      clearInterval(timer);
      await this.call(LEAVE, key).catch((e: Error) => console.warn(`${name}: ${e.message}`));
    }
  }

  private async enter(key: string): Promise<void> {
    const giveUp = Date.now() + this.waitMs;
    while ((await this.call(ENTER, key)) !== 1) {
      if (Date.now() > giveUp) throw new Error(`${key} is held by someone else`);
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 50));
    }
  }

  private async call(script: string, key: string): Promise<number> {
    return Number(
      await this.client.eval(script, { keys: [key], arguments: [OWNER, String(this.ttlMs)] }),
    );
  }
}
