import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

const GRANT = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const WRITE = `
local last = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < last then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1`;

export class StaleFenceError extends Error {
  override name = 'StaleFenceError';
}

export class FencedLease {
  private constructor(
    private readonly client: RedisClientType,
    private readonly key: string,
    private readonly token: string,
    /** Rises with each holder. */
    readonly fence: number,
    /** By `performance.now()`. */
    readonly validUntil: number,
  ) {}

  static async acquire(client: RedisClientType, resource: string, ttlMs = 5_000): Promise<FencedLease | null> {
    const key = `lease:{${resource}}`;
    const token = randomUUID();
    const sent = performance.now();
    try {
      const fence = await client.eval(GRANT, {
        keys: [key, `fence:{${resource}}`],
        arguments: [token, String(ttlMs)],
      });
      if (fence === null) return null;
      const lease = new FencedLease(client, key, token, Number(fence), sent + ttlMs * 0.98 - 10);
      if (lease.isValid) return lease;
      await lease.release();
      return null;
    } catch (error) {
      await client.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => {});
      throw error;
    }
  }

  get isValid(): boolean {
    return performance.now() < this.validUntil;
  }

  /** Writes are refused by Redis itself once a later holder has written. */
  async write(record: string, value: string): Promise<void> {
    if (!this.isValid) throw new StaleFenceError(record);
    const written = await this.client.eval(WRITE, { keys: [record], arguments: [String(this.fence), value] });
    if (written !== 1) throw new StaleFenceError(record);
  }

  async release(): Promise<void> {
    await this.client.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
  }
}
