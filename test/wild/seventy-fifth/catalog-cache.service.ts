import { Inject, Injectable, Logger } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const LEASE_MS = 8_000;

/** Stores the value only for the one who still has the lease, and ends the lease. */
const STORE = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1`;

const GIVE_UP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/**
 * Read-through cache for the catalog queries, which take one to five seconds.
 *
 * When an entry is missing, one caller gets a lease and loads it while the others wait for
 * the value. This is to protect the database from a stampede, it is not mutual exclusion:
 * a loader that is slower than the lease may get company, and then only the one with the
 * current lease writes to the cache. Without Redis everybody loads for themselves.
 */
@Injectable()
export class CatalogCache {
  private readonly log = new Logger(CatalogCache.name);

  constructor(@Inject('REDIS') private readonly redis: RedisClientType) {}

  async getOrLoad<T>(name: string, ttlSeconds: number, load: () => Promise<T>): Promise<T> {
    const [valueKey, leaseKey] = this.keys(name);
    const token = randomUUID();
    let leased = false;

    try {
      const patience = Date.now() + LEASE_MS;
      for (;;) {
        const hit = await this.redis.get(valueKey);
        if (hit !== null) return JSON.parse(hit) as T;

        leased = (await this.redis.set(leaseKey, token, { NX: true, PX: LEASE_MS })) === 'OK';
        if (leased || Date.now() > patience) break;
        await sleep(40 + Math.random() * 60);
      }
    } catch (err) {
      this.log.warn(`cache unavailable for ${name}: ${(err as Error).message}`);
    }

    let value: T;
    try {
      value = await load();
    } catch (err) {
      if (leased) {
        await this.quietly(() => this.redis.eval(GIVE_UP, { keys: [leaseKey], arguments: [token] }));
      }
      throw err;
    }

    if (leased) {
      await this.quietly(() =>
        this.redis.eval(STORE, {
          keys: [valueKey, leaseKey],
          arguments: [token, JSON.stringify(value), String(ttlSeconds)],
        }),
      );
    }
    return value;
  }

  /**
   * Call after the commit. Takes the lease away as well, from any holder: a load that began
   * before the commit may have read the old rows and must not store them any more.
   */
  async invalidate(name: string): Promise<void> {
    await this.redis.del(this.keys(name));
  }

  private keys(name: string): [string, string] {
    return [`catalog:{${name}}:v`, `catalog:{${name}}:lease`];
  }

  private async quietly(job: () => Promise<unknown>): Promise<void> {
    try {
      await job();
    } catch (err) {
      this.log.warn((err as Error).message);
    }
  }
}
