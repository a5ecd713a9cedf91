import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

const BEGIN_READ = `${NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const END_READ = `${NOW}
local expires = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
if expires and tonumber(expires) > now then return 1 end
return 0`;

const BEGIN_WRITE = `${NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2]) then return 0 end
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('PERSIST', KEYS[3])
redis.call('DEL', KEYS[1])
return 1`;

const ABANDON = `
redis.call('DEL', KEYS[2])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

const READ_TTL = 10_000;
const WRITE_TTL = 20_000;

/**
 * Price lists of up to 200k articles, one hash per tenant. Many readers or one writer:
 * `readAll` returns one consistent list, `setPrices` overwrites the given articles.
 * A call that ends in an error may be repeated with the same prices.
 */
export class PriceListStore {
  constructor(private readonly redis: Redis) {}

  private keys(tenant: string) {
    const tag = `{prices:${tenant}}`;
    return { writer: `${tag}:writer`, readers: `${tag}:readers`, live: `${tag}:live` };
  }

  private async until(attempt: () => Promise<unknown>, waitMs: number, what: string): Promise<void> {
    const deadline = Date.now() + waitMs;
    while ((await attempt()) !== 1) {
      if (Date.now() > deadline) throw new Error(`timed out waiting for ${what}`);
      await sleep(25 + Math.random() * 50);
    }
  }

  private async scan(key: string): Promise<Map<string, number>> {
    const prices = new Map<string, number>();
    let cursor = '0';
    do {
      const [next, flat] = await this.redis.hscan(key, cursor, 'COUNT', 2_000);
      for (let i = 0; i < flat.length; i += 2) prices.set(flat[i], Number(flat[i + 1]));
      cursor = next;
    } while (cursor !== '0');
    return prices;
  }

  async readAll(tenant: string): Promise<Map<string, number>> {
    const { writer, readers, live } = this.keys(tenant);
    for (let round = 0; round < 5; round++) {
      const token = randomUUID();
      await this.until(() => this.redis.eval(BEGIN_READ, 2, writer, readers, token, READ_TTL), 30_000, 'price list');
      let valid: unknown = 0;
      let prices = new Map<string, number>();
      try {
        prices = await this.scan(live);
      } finally {
        valid = await this.redis.eval(END_READ, 1, readers, token);
      }
      if (valid === 1) return prices;
    }
    throw new Error(`price list of ${tenant} could not be read in time`);
  }

  async setPrices(tenant: string, changes: Record<string, number>): Promise<void> {
    const { writer, readers, live } = this.keys(tenant);
    const token = randomUUID();
    const staging = `{prices:${tenant}}:staging:${token}`;
    await this.until(() => this.redis.eval(BEGIN_WRITE, 2, writer, readers, token, WRITE_TTL), 30_000, 'writing');
    try {
      const prices = await this.scan(live);
      for (const [article, cents] of Object.entries(changes)) prices.set(article, cents);
      if (prices.size === 0) return;
      const entries = [...prices];
      for (let i = 0; i < entries.length; i += 5_000) {
        const chunk = entries.slice(i, i + 5_000).flat().map(String);
        await this.redis.multi().hset(staging, ...chunk).pexpire(staging, 10 * WRITE_TTL).exec();
      }
      const published = await this.redis.eval(PUBLISH, 3, writer, staging, live, token, prices.size);
      if (published !== 1) throw new Error(`prices of ${tenant} may not have been published`);
    } finally {
      await this.redis.eval(ABANDON, 2, writer, staging, token).catch(() => undefined);
    }
  }
}
