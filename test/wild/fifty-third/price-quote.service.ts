import { Inject, Injectable, ServiceUnavailableException } from '@nestjs/common';
import { createClient, defineScript } from 'redis';
import { nanoid } from 'nanoid';
import axios from 'axios';
import { setTimeout as delay } from 'node:timers/promises';
import { logger } from '../lib/logger';

export interface Quote {
  sku: string;
  currency: string;
  minorUnits: number;
  quotedAt: string;
}

export const buildQuoteRedis = (url: string) =>
  createClient({
    url,
    scripts: {
      releaseIfOwner: defineScript({
        NUMBER_OF_KEYS: 1,
        SCRIPT: `
          if redis.call("GET", KEYS[1]) == ARGV[1] then
            return redis.call("DEL", KEYS[1])
          else
            return 0
          end`,
        transformArguments(key: string, owner: string): string[] {
          return [key, owner];
        },
        transformReply(reply: number): boolean {
          return reply === 1;
        },
      }),
    },
  });

export type QuoteRedis = ReturnType<typeof buildQuoteRedis>;

const FRESH_SECONDS = 120;
const REFILL_LOCK_MS = 8_000;
const UPSTREAM_TIMEOUT_MS = 3_000;
const WAIT_STEP_MS = 150;
const WAIT_LIMIT_MS = 4_500;

@Injectable()
export class PriceQuoteService {
  constructor(
    @Inject('QUOTE_REDIS') private readonly redis: QuoteRedis,
    @Inject('QUOTE_UPSTREAM') private readonly upstream: string,
  ) {}

  async quote(sku: string, currency: string): Promise<Quote> {
    const cacheKey = `quote:${currency}:${sku}`;
    const giveUpAt = Date.now() + WAIT_LIMIT_MS;

    for (;;) {
      const cached = await this.redis.get(cacheKey);
      if (cached) return JSON.parse(cached) as Quote;

      const refilled = await this.refill(cacheKey, sku, currency);
      if (refilled) return refilled;

      if (Date.now() >= giveUpAt) {
        throw new ServiceUnavailableException(`no quote for ${sku} yet`);
      }
      await delay(WAIT_STEP_MS);
    }
  }

  private async refill(cacheKey: string, sku: string, currency: string): Promise<Quote | null> {
    const lockKey = `${cacheKey}:refill`;
    const owner = nanoid();
    const set = await this.redis.set(lockKey, owner, { NX: true, PX: REFILL_LOCK_MS });
    if (set === null) return null;

    try {
      const again = await this.redis.get(cacheKey);
      if (again) return JSON.parse(again) as Quote;

      const { data } = await axios.get<{ minor_units: number }>(`${this.upstream}/prices/${sku}`, {
        params: { currency },
        signal: AbortSignal.timeout(UPSTREAM_TIMEOUT_MS),
      });
      const fresh: Quote = {
        sku,
        currency,
        minorUnits: data.minor_units,
        quotedAt: new Date().toISOString(),
      };
      await this.redis.set(cacheKey, JSON.stringify(fresh), { EX: FRESH_SECONDS });
      return fresh;
    } finally {
      const released = await this.redis.releaseIfOwner(lockKey, owner).catch(() => false);
      if (!released) logger.warn({ lockKey }, 'refill lock was gone before release');
    }
  }
}
