import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const LOCK = `
local owner = redis.call('hget', KEYS[1], 'owner')
if owner == false or owner == ARGV[1] then
  redis.call('hset', KEYS[1], 'owner', ARGV[1])
  local depth = redis.call('hincrby', KEYS[1], 'depth', 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return depth
end
return 0`;

const UNLOCK = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then
  return -1
end
local depth = redis.call('hincrby', KEYS[1], 'depth', -1)
if depth <= 0 then
  redis.call('del', KEYS[1])
end
return depth`;

export interface OrderMutexOptions {
  client: Client;
  ttlMs?: number;
  waitMs?: number;
}

/**
 * Re-entrant lock per order. addLine() calls recalculate(), which locks the
 * order again, so the same owner may enter several times.
 */
export class OrderMutex {
  private readonly client: Client;
  private readonly ttlMs: number;
  private readonly waitMs: number;
  /** Unique over all pods. */
  private readonly owner = `${process.env.HOSTNAME ?? 'local'}:${process.pid}:${randomUUID()}`;

  constructor({ client, ttlMs = 12_000, waitMs = 4_000 }: OrderMutexOptions) {
    this.client = client;
    this.ttlMs = ttlMs;
    this.waitMs = waitMs;
  }

  async run<T>(orderId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `order:${orderId}:mutex`;
    const giveUp = performance.now() + this.waitMs;
    for (;;) {
      // less than the ttl, counted from before the command goes out
      const signal = AbortSignal.timeout(this.ttlMs - 3_000);
      const depth = Number(
        await this.client.eval(LOCK, { keys: [key], arguments: [this.owner, String(this.ttlMs)] }),
      );
      if (depth > 0) {
        try {
          return await fn(signal);
        } finally {
          await this.unlock(key);
        }
      }
      if (performance.now() > giveUp) throw new Error(`order ${orderId} is busy`);
      await sleep(30 + Math.random() * 70);
    }
  }

  private async unlock(key: string): Promise<void> {
    try {
      await this.client.eval(UNLOCK, { keys: [key], arguments: [this.owner] });
    } catch (err) {
      console.warn('unlock failed, waiting for expiry', key, err);
    }
  }
}

export interface Line {
  sku: string;
  quantity: number;
  cents: number;
}

/** One instance per process, shared by all request handlers. */
export class OrderService {
  private readonly mutex: OrderMutex;

  constructor(private readonly client: Client) {
    this.mutex = new OrderMutex({ client });
  }

  async addLine(orderId: string, line: Line): Promise<number> {
    return this.mutex.run(orderId, async (signal) => {
      const lines = await this.load(orderId);
      lines.push(line);
      signal.throwIfAborted();
      await this.client.hSet(`order:${orderId}`, 'lines', JSON.stringify(lines));
      return this.recalculate(orderId);
    });
  }

  async recalculate(orderId: string): Promise<number> {
    return this.mutex.run(orderId, async (signal) => {
      const total = (await this.load(orderId)).reduce((sum, l) => sum + l.quantity * l.cents, 0);
      signal.throwIfAborted();
      await this.client.hSet(`order:${orderId}`, 'total', String(total));
      return total;
    });
  }

  private async load(orderId: string): Promise<Line[]> {
    return JSON.parse((await this.client.hGet(`order:${orderId}`, 'lines')) ?? '[]') as Line[];
  }
}
