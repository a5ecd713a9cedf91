import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

// KEYS[1] list of free permits, KEYS[2] zset of borrowed ones (holder -> lease end)
const SETUP = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  for i = 1, tonumber(ARGV[1]) do redis.call('RPUSH', KEYS[1], 'permit') end
  return 1
end
return 0`;

const NOW = `local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

const BORROW = `${NOW}
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 1 end
for _, holder in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('ZREM', KEYS[2], holder)
  redis.call('RPUSH', KEYS[1], 'permit')
end
if not redis.call('LPOP', KEYS[1]) then return 0 end
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
return 1`;

const RENEW = `${NOW}
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[2], 'XX', now + tonumber(ARGV[2]), ARGV[1])
return 1`;

const GIVE_BACK = `
if redis.call('ZREM', KEYS[2], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[1], 'permit') return 1 end
return 0`;

export interface PoolOptions {
  permits: number;
  leaseMs?: number;
  waitMs?: number;
}

/**
 * A pool of permits shared by all processes, e.g. for an API that only allows
 * a few connections per customer. Permits of crashed holders come back once
 * their lease is over.
 */
export class PermitPool {
  private constructor(
    private readonly redis: Redis,
    private readonly keys: [string, string],
    private readonly leaseMs: number,
    private readonly waitMs: number,
  ) {}

  /** Call once per process at start-up. Fills the pool if it is not there yet. */
  static async open(redis: Redis, name: string, opts: PoolOptions): Promise<PermitPool> {
    const keys: [string, string] = [`pool:{${name}}:free`, `pool:{${name}}:held`];
    await redis.eval(SETUP, 2, ...keys, opts.permits);
    return new PermitPool(redis, keys, opts.leaseMs ?? 20_000, opts.waitMs ?? 30_000);
  }

  async use<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const holder = randomUUID();
    let sentAt = await this.borrow(holder);
    const ac = new AbortController();
    let deadline: NodeJS.Timeout | undefined;
    const arm = () => {
      clearTimeout(deadline);
      const left = sentAt + this.leaseMs * 0.85 - performance.now();
      deadline = setTimeout(() => ac.abort(new Error('permit lost')), Math.max(0, left));
    };
    arm();
    const heartbeat = setInterval(async () => {
      const at = performance.now();
      try {
        const ok = await this.redis.eval(RENEW, 2, ...this.keys, holder, this.leaseMs);
        if (ac.signal.aborted || !deadline) return;
        if (ok !== 1) return ac.abort(new Error('permit lost'));
        sentAt = at;
        arm();
      } catch (err) {
        console.warn('renewing a permit: %s', (err as Error).message);
      }
    }, this.leaseMs / 4);

    try {
      return await fn(ac.signal);
    } finally {
      clearInterval(heartbeat);
      clearTimeout(deadline);
      deadline = undefined;
      await this.redis
        .eval(GIVE_BACK, 2, ...this.keys, holder)
        .catch((err) => console.warn('permit returns when its lease ends: %s', err.message));
    }
  }

  private async borrow(holder: string): Promise<number> {
    const giveUpAt = performance.now() + this.waitMs;
    for (;;) {
      const sentAt = performance.now();
      if ((await this.redis.eval(BORROW, 2, ...this.keys, holder, this.leaseMs)) === 1) return sentAt;
      if (performance.now() > giveUpAt) throw new Error('no permit available');
      await sleep(150 + Math.random() * 100);
    }
  }
}

// usage: the ERP kicks us out when it sees more than 3 sessions
let erpSessions: Promise<PermitPool> | undefined;

export async function syncOrders(redis: Redis, pull: (signal: AbortSignal) => Promise<number>) {
  erpSessions ??= PermitPool.open(redis, 'erp-sessions', { permits: 3 });
  return (await erpSessions).use(pull);
}
