import { randomUUID } from 'crypto';
import type { RedisClientType } from 'redis';

/**
 * Read-modify-write of JSON documents kept in Redis hashes.
 *
 * The lease only keeps writers from treading on each other's toes most of the time.
 * What makes an update safe is the fencing number: reading a document under number N
 * marks it with N, and a write with a lower number than the mark is refused.
 */

const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const OPEN = `
local mark = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < mark then return {0} end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return {1, redis.call('HGET', KEYS[1], 'body') or ''}`;

const SAVE = `
local mark = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < mark then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'body', ARGV[2])
return 1`;

export class StaleWriter extends Error {
  constructor(id: string, fence: number) {
    super(`document ${id}: number ${fence} has been overtaken`);
    this.name = 'StaleWriter';
  }
}

export class DocumentStore {
  constructor(
    private readonly client: RedisClientType,
    private readonly leaseMs = 8_000,
  ) {}

  async update<T>(id: string, change: (doc: T | null) => T | Promise<T>): Promise<T> {
    const lock = `{doc:${id}}:lock`;
    const body = `{doc:${id}}:body`;
    const token = randomUUID();

    try {
      const fence = await this.lock(id, lock, token);

      const [ok, raw] = (await this.client.eval(OPEN, {
        keys: [body],
        arguments: [String(fence)],
      })) as [number, string?];
      if (Number(ok) !== 1) throw new StaleWriter(id, fence);

      const next = await change(raw ? (JSON.parse(raw) as T) : null);

      const saved = await this.client.eval(SAVE, {
        keys: [body],
        arguments: [String(fence), JSON.stringify(next)],
      });
      if (Number(saved) !== 1) throw new StaleWriter(id, fence);
      return next;
    } finally {
      await this.client
        .eval(UNLOCK, { keys: [lock], arguments: [token] })
        .catch((err) => console.warn(`unlock ${lock}: ${(err as Error).message}`));
    }
  }

  private async lock(id: string, lock: string, token: string): Promise<number> {
    const deadline = Date.now() + 2 * this.leaseMs;
    while (Date.now() < deadline) {
      const n = Number(
        await this.client.eval(LOCK, {
          keys: [lock, `{doc:${id}}:seq`],
          arguments: [token, String(this.leaseMs)],
        }),
      );
      if (n > 0) return n;
      await new Promise((r) => setTimeout(r, 40 + Math.random() * 80));
    }
    throw new Error(`document ${id} is busy`);
  }
}
