import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import pino from 'pino';

/**
 * Publishes the price list of a market. A run may take longer than its lock when the pricing
 * engine is slow, so every run carries the number of its lock and the store refuses a write
 * of a run that was overtaken.
 */

const log = pino({ name: 'price-feed' });

export interface PriceList {
  market: string;
  computedAt: string;
  prices: Record<string, number>;
}

export interface Grant {
  market: string;
  token: string;
  fence: number;
}

export interface PricingEngine {
  compute(market: string): Promise<PriceList>;
}

const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

// KEYS: price list, fence of the last write. ARGV: fence of this write, document
const STORE = `
local seen = redis.call('GET', KEYS[2])
if seen and ARGV[1] < seen then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[1])
return 1
`;

export class StaleRunError extends Error {
  constructor(grant: Grant) {
    super(`price run ${grant.fence} of ${grant.market} was overtaken`);
    this.name = 'StaleRunError';
  }
}

export class PriceFeedPublisher {
  constructor(
    private readonly redis: Redis,
    private readonly engine: PricingEngine,
    private readonly lockMs = 10_000,
  ) {}

  private key(market: string, part: 'lock' | 'counter' | 'list' | 'fence') {
    return `{prices:${market}}:${part}`;
  }

  async lock(market: string): Promise<Grant | null> {
    const token = randomUUID();
    const fence = Number(
      await this.redis.eval(LOCK, 2, this.key(market, 'lock'), this.key(market, 'counter'), token, this.lockMs),
    );
    return fence > 0 ? { market, token, fence } : null;
  }

  async store(grant: Grant, list: PriceList): Promise<void> {
    const ok = await this.redis.eval(
      STORE,
      2,
      this.key(grant.market, 'list'),
      this.key(grant.market, 'fence'),
      String(grant.fence),
      JSON.stringify(list),
    );
    if (ok !== 1) throw new StaleRunError(grant);
  }

  async unlock(grant: Grant): Promise<void> {
    await this.redis
      .eval(UNLOCK, 1, this.key(grant.market, 'lock'), grant.token)
      .catch((err) => log.warn({ err, market: grant.market }, 'unlock failed'));
  }

  async publish(market: string): Promise<'published' | 'busy' | 'stale'> {
    const grant = await this.lock(market);
    if (!grant) return 'busy';
    try {
      const list = await this.engine.compute(market);
      await this.store(grant, list);
      log.info({ market, fence: grant.fence, items: Object.keys(list.prices).length }, 'price list published');
      return 'published';
    } catch (err) {
      if (err instanceof StaleRunError) {
        log.warn({ market, fence: grant.fence }, err.message);
        return 'stale';
      }
      throw err;
    } finally {
      await this.unlock(grant);
    }
  }

  async current(market: string): Promise<PriceList | null> {
    const raw = await this.redis.get(this.key(market, 'list'));
    return raw ? (JSON.parse(raw) as PriceList) : null;
  }
}

export function createPublisher(engine: PricingEngine) {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
  redis.on('error', (err: Error) => log.warn({ err }, 'redis'));
  return new PriceFeedPublisher(redis, engine);
}
