import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

export type RedisClient = ReturnType<typeof createClient>;

export interface StockCounted {
  sku: string;
  counted: number;
  countedAt: number; // epoch ms of the count in the warehouse
}

// Takes the lock and draws the next fencing number in one step.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

// Reading registers our number on the row. From here on nobody with a smaller
// number can write, even if he was paused right before his commit.
const CLAIM = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return { redis.call('HGET', KEYS[1], 'reserved') or '0', redis.call('HGET', KEYS[1], 'countedAt') or '0' }`;

const COMMIT = `
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'available', ARGV[2], 'countedAt', ARGV[3])
return 1`;

export class RetryLater extends Error {}

/**
 * Consumer for warehouse counts. The lock keeps two workers from doing the same
 * work at the same time; the fencing number is what protects the stock row when
 * a worker outlives its lock. That is why there is no watchdog here.
 */
export class StockConsumer {
  constructor(
    private readonly redis: RedisClient,
    private readonly safetyStock: (sku: string) => Promise<number>,
    private readonly ttlMs = 10_000,
  ) {}

  async onMessage(msg: StockCounted): Promise<'applied' | 'outdated'> {
    // the hash tag keeps all keys of one sku in the same slot
    const lockKey = `{stock:${msg.sku}}:lock`;
    const fenceKey = `{stock:${msg.sku}}:fence`; // never expires, must only grow
    const rowKey = `{stock:${msg.sku}}:row`;
    const token = randomUUID();

    try {
      const fence = Number(
        await this.redis.eval(ACQUIRE, { keys: [lockKey, fenceKey], arguments: [token, String(this.ttlMs)] }),
      );
      if (fence === 0) throw new RetryLater(`sku ${msg.sku} is busy`); // broker redelivers

      const row = (await this.redis.eval(CLAIM, { keys: [rowKey], arguments: [String(fence)] })) as
        | [string, string]
        | null;
      if (!row) throw new RetryLater(`sku ${msg.sku}: overtaken by a newer holder`);

      const [reserved, lastCountedAt] = row.map(Number) as [number, number];
      if (lastCountedAt >= msg.countedAt) return 'outdated'; // also makes redelivery harmless

      const available = Math.max(0, msg.counted - reserved - (await this.safetyStock(msg.sku)));
      const written = await this.redis.eval(COMMIT, {
        keys: [rowKey],
        arguments: [String(fence), String(available), String(msg.countedAt)],
      });
      if (Number(written) !== 1) throw new RetryLater(`sku ${msg.sku}: fenced off`);
      return 'applied';
    } finally {
      // Only ever removes our own token, so it may run whether or not we got the
      // lock. It also covers an ACQUIRE whose reply never reached us.
      await this.redis.eval(RELEASE, { keys: [lockKey], arguments: [token] }).catch(() => undefined);
    }
  }
}
