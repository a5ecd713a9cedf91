import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "@upstash/redis";

export type Rates = Record<string, number>;

const FRESH_S = 600;
const LOCK_TTL_MS = 8_000;
const UPSTREAM_TIMEOUT_MS = 4_000;
const WAIT_MS = 12_000;

const PUBLISH = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[2], ARGV[2], "EX", ARGV[3])
redis.call("DEL", KEYS[1])
return 1
`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0
`;

export class RatesUnavailableError extends Error {}

export class ExchangeRates {
  constructor(private readonly redis: Redis = Redis.fromEnv()) {}

  /** Cached rates; on a miss one caller asks the bank and the others wait for its answer. */
  async get(base: string): Promise<Rates> {
    const cacheKey = `{rates:${base}}:cache`;
    const lockKey = `{rates:${base}}:lock`;
    const giveUpAt = Date.now() + WAIT_MS;

    for (;;) {
      const cached = await this.redis.get<Rates>(cacheKey);
      if (cached) return cached;

      const token = `fill-${randomUUID()}`;
      if ((await this.redis.set(lockKey, token, { nx: true, px: LOCK_TTL_MS })) === "OK") {
        return this.fill(base, cacheKey, lockKey, token);
      }
      if (Date.now() >= giveUpAt) throw new RatesUnavailableError(base);
      await sleep(200 + Math.random() * 100);
    }
  }

  private async fill(base: string, cacheKey: string, lockKey: string, token: string): Promise<Rates> {
    try {
      const filled = await this.redis.get<Rates>(cacheKey);
      if (filled) return filled;

      const res = await fetch(`${process.env.BANK_API}/latest?base=${encodeURIComponent(base)}`, {
        signal: AbortSignal.timeout(UPSTREAM_TIMEOUT_MS),
      });
      if (!res.ok) throw new RatesUnavailableError(`${base}: ${res.status}`);
      const { rates } = (await res.json()) as { rates: Rates };

      const kept = await this.redis.eval(PUBLISH, [lockKey, cacheKey], [token, JSON.stringify(rates), String(FRESH_S)]);
      if (kept !== 1) console.info(`rates for ${base} came too late for the cache`);
      return rates;
    } finally {
      await this.redis.eval(RELEASE, [lockKey], [token]).catch((err) => {
        console.warn(`${lockKey} left to expire`, err);
      });
    }
  }
}
