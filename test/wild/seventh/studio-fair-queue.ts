import type { Redis } from 'ioredis';
import { randomUUID } from 'crypto';
import { setTimeout as sleep } from 'timers/promises';

/**
 * First come, first served. Waiters stand in a zset ordered by ticket number;
 * a second zset says until when each waiter counts as alive (it must poll).
 *
 * KEYS: owner, queue, alive, ticket   ARGV: id, leaseMs, waiterMs
 */
const STEP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], dead)
  redis.call('ZREM', KEYS[3], dead)
end

if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), ARGV[1])
end
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[3]), ARGV[1])

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('ZRANGE', KEYS[2], 0, 0)[1] ~= ARGV[1] then return 0 end

redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const LEAVE = `
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

const BOOK = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1`;

export class StudioQueue {
  constructor(private readonly redis: Redis, private readonly leaseMs = 20_000) {}

  private keys(studio: string) {
    const p = `studio:{${studio}}`;
    return [`${p}:owner`, `${p}:queue`, `${p}:alive`, `${p}:ticket`];
  }

  async withTurn<T>(studio: string, patienceMs: number, body: (turn: Turn) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const keys = this.keys(studio);
    const giveUpAt = Date.now() + patienceMs;
    try {
      while ((await this.redis.eval(STEP, 4, ...keys, id, this.leaseMs, 3_000)) !== 1) {
        if (Date.now() > giveUpAt) throw new Error(`studio ${studio}: no turn within ${patienceMs}ms`);
        await sleep(150 + Math.random() * 100);
      }
      return await body(new Turn(this.redis, keys[0], `studio:{${studio}}:bookings`, id));
    } finally {
      await this.redis.eval(LEAVE, 4, ...keys, id).catch(() => {});
    }
  }
}

export class Turn {
  constructor(private redis: Redis, private owner: string, private bookings: string, private id: string) {}

  listBookings() {
    return this.redis.hgetall(this.bookings);
  }

  async book(slot: string, band: string): Promise<void> {
    const ok = await this.redis.eval(BOOK, 2, this.owner, this.bookings, this.id, slot, band);
    if (ok !== 1) throw new Error('turn is over');
  }
}
