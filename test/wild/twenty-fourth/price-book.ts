import { randomUUID } from 'crypto';
import { createClient } from 'redis';

type RedisConn = ReturnType<typeof createClient>;

const READER_LEASE_MS = 10_000;
const WRITER_TTL_MS = 20_000;
const MAX_WAIT_MS = 5_000;
const POLL_MS = 25;

// readers sit in a zset scored with the (server) time at which they're presumed dead
const ADD_READER = `
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  return redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])`;

const LIVE_READERS = `
  local t = redis.call('TIME')
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', t[1] * 1000 + math.floor(t[2] / 1000))
  return redis.call('ZCARD', KEYS[1])`;

const DROP_WRITER = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

export class ReadWriteLock {
  private readonly writerKey: string;
  private readonly readersKey: string;

  constructor(private readonly redis: RedisConn, name: string) {
    this.writerKey = `rw:{${name}}:writer`;
    this.readersKey = `rw:{${name}}:readers`;
  }

  private async until(what: string, test: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + MAX_WAIT_MS;
    while (!(await test())) {
      if (performance.now() > end) throw new Error(`timed out waiting for ${what}`);
      await new Promise((r) => setTimeout(r, POLL_MS));
    }
  }

  async read<T>(fn: () => Promise<T>): Promise<T> {
    const me = randomUUID();
    await this.until('writer', async () => (await this.redis.exists(this.writerKey)) === 0);
    await this.redis.eval(ADD_READER, { keys: [this.readersKey], arguments: [me, String(READER_LEASE_MS)] });
    try {
      return await fn();
    } finally {
      await this.redis.zRem(this.readersKey, me).catch(() => {}); // lapses with the lease
    }
  }

  // Takes the writer flag first, which keeps new readers out, then lets the present ones drain.
  async write<T>(fn: () => Promise<T>): Promise<T> {
    const me = randomUUID();
    await this.until(
      'other writer',
      async () => (await this.redis.set(this.writerKey, me, { NX: true, PX: WRITER_TTL_MS })) === 'OK',
    );
    try {
      await this.until(
        'readers',
        async () => (await this.redis.eval(LIVE_READERS, { keys: [this.readersKey], arguments: [] })) === 0,
      );
      return await fn();
    } finally {
      await this.redis
        .eval(DROP_WRITER, { keys: [this.writerKey], arguments: [me] })
        .catch((err) => console.warn('writer flag left to expire', err));
    }
  }
}

export interface Quote { lines: { sku: string; cents: number }[]; totalCents: number }

export class PriceBook {
  private readonly lock: ReadWriteLock;

  constructor(private readonly redis: RedisConn, private readonly book: string) {
    this.lock = new ReadWriteLock(redis, `pricebook:${book}`);
  }

  /** All lines of a quote come from the same edition of the book. The quote is binding for 30 days. */
  quote(skus: string[]): Promise<Quote> {
    return this.lock.read(async () => {
      const lines: Quote['lines'] = [];
      for (const sku of skus) {
        const cents = await this.redis.hGet(`price:${this.book}:${sku}`, 'cents');
        if (cents == null) throw new Error(`no price for ${sku}`);
        lines.push({ sku, cents: Number(cents) });
      }
      return { lines, totalCents: lines.reduce((sum, l) => sum + l.cents, 0) };
    });
  }

  /** At most a few hundred SKUs per edition change. */
  reprice(prices: Map<string, number>): Promise<void> {
    return this.lock.write(async () => {
      for (const [sku, cents] of prices) {
        await this.redis.hSet(`price:${this.book}:${sku}`, 'cents', String(cents));
      }
    });
  }
}
