import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { z } from 'zod';

const TokenResponse = z.object({
  access_token: z.string().min(1),
  expires_in: z.number().int().positive(),
});

export interface CarrierConfig {
  carrier: string;
  tokenUrl: string;
  clientId: string;
  clientSecret: string;
}

const FETCH_TIMEOUT = 8_000;
const LOCK_TTL = 15_000;
const SKEW_SECONDS = 90;

/* Publishes the token only while the lock is still ours, and gives the lock back in the same step. */
const PUBLISH = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('del', KEYS[1])
return 1
`;

const ABANDON = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
`;

/**
 * Carrier APIs (DHL, PostNL, ...) throttle their token endpoint hard: 10 calls an
 * hour for some accounts. So one pod fetches and all the others read it from Redis.
 *
 * Grant is client_credentials, a superfluous fetch costs quota but does not
 * invalidate the older token.
 */
export class CarrierTokenProvider {
  constructor(
    private readonly redis: Redis,
    private readonly cfg: CarrierConfig,
    private readonly maxWaitMs = 20_000,
  ) {}

  async getToken(): Promise<string> {
    const cacheKey = `{carrier:${this.cfg.carrier}}:access-token`;
    const lockKey = `{carrier:${this.cfg.carrier}}:access-token:lock`;
    const giveUpAt = Date.now() + this.maxWaitMs;

    while (Date.now() < giveUpAt) {
      const cached = await this.redis.get(cacheKey);
      if (cached) return cached;

      const owner = randomUUID();
      if ((await this.redis.set(lockKey, owner, 'PX', LOCK_TTL, 'NX')) === 'OK') {
        return this.refresh(cacheKey, lockKey, owner);
      }
      await sleep(100 + Math.random() * 150);
    }
    throw new Error(`timed out waiting for ${this.cfg.carrier} access token`);
  }

  private async refresh(cacheKey: string, lockKey: string, owner: string): Promise<string> {
    try {
      // somebody may have published between our read and our lock
      const published = await this.redis.get(cacheKey);
      if (published) {
        await this.abandon(lockKey, owner);
        return published;
      }

      const { access_token, expires_in } = await this.requestToken();
      const ttl = expires_in - SKEW_SECONDS;
      if (ttl <= 0) {
        await this.abandon(lockKey, owner);
        return access_token;
      }
      await this.redis.eval(PUBLISH, 2, lockKey, cacheKey, owner, access_token, ttl);
      return access_token;
    } catch (err) {
      await this.abandon(lockKey, owner);
      throw err;
    }
  }

  private async abandon(lockKey: string, owner: string): Promise<void> {
    try {
      await this.redis.eval(ABANDON, 1, lockKey, owner);
    } catch {
      // expires on its own
    }
  }

  private async requestToken() {
    const res = await fetch(this.cfg.tokenUrl, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        authorization:
          'Basic ' + Buffer.from(`${this.cfg.clientId}:${this.cfg.clientSecret}`).toString('base64'),
      },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
      signal: AbortSignal.timeout(FETCH_TIMEOUT),
    });
    if (!res.ok) {
      throw new Error(`${this.cfg.carrier} token endpoint answered ${res.status}`);
    }
    return TokenResponse.parse(await res.json());
  }
}
