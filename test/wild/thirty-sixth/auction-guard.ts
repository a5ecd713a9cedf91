import { Redis } from 'ioredis';
import pg from 'pg';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 2_000 });
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 3_000, connectionTimeoutMillis: 2_000 });

// readable in redis-cli, so support can see where a lot hangs
const HOLDER = `${hostname()}:${process.pid}`;

// A SET whose reply got lost must not shut us out of our own lot on the retry.
const ENTER = `
local holder = redis.call('GET', KEYS[1])
if holder == false or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LotBusyError extends Error {}

function exclusive<This, Args extends unknown[], R>(keyOf: (...args: Args) => string, ttlMs = 30_000, waitMs = 5_000) {
  return function (
    method: (this: This, ...args: Args) => Promise<R>,
    _ctx: ClassMethodDecoratorContext<This, (this: This, ...args: Args) => Promise<R>>,
  ) {
    return async function (this: This, ...args: Args): Promise<R> {
      const key = `auction:${keyOf(...args)}`;
      const deadline = Date.now() + waitMs;
      while ((await redis.eval(ENTER, 1, key, HOLDER, ttlMs)) !== 1) {
        if (Date.now() > deadline) throw new LotBusyError(key);
        await sleep(40 + Math.random() * 80);
      }
      try {
        return await method.apply(this, args);
      } finally {
        await redis.eval(LEAVE, 1, key, HOLDER).catch((err: Error) => console.warn(key, err.message));
      }
    };
  };
}

export class BidBook {
  @exclusive((lotId: string, _bidder: string, _cents: number) => `lot:${lotId}`)
  async place(lotId: string, bidder: string, cents: number): Promise<'accepted' | 'too-low' | 'closed'> {
    const { rows } = await pool.query<{ top_cents: number; closed: boolean }>(
      'SELECT top_cents, closed FROM lot WHERE id = $1',
      [lotId],
    );
    const lot = rows[0];
    if (!lot || lot.closed) return 'closed';
    if (cents <= lot.top_cents) return 'too-low';

    await pool.query(
      `WITH b AS (INSERT INTO bid (lot_id, bidder, cents) VALUES ($1, $2, $3))
       UPDATE lot SET top_cents = $3, top_bidder = $2 WHERE id = $1`,
      [lotId, bidder, cents],
    );
    return 'accepted';
  }
}
