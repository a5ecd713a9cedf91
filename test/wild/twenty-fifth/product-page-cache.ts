import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from '@upstash/redis';

// Stores the value only for the holder of the lease, and ends the lease in the same step.
const PUBLISH = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

type Boxed<T> = { v: T };

export interface CacheOptions<K, V> {
  redis: Redis;
  name: string;
  keyOf: (k: K) => string;
  load: (k: K, signal: AbortSignal) => Promise<V>;
  freshMs: number;
  leaseMs?: number;
}

export interface Cache<K, V> {
  get(k: K): Promise<V>;
  invalidate(k: K): Promise<void>;
}

export function createCache<K, V>(o: CacheOptions<K, V>): Cache<K, V> {
  const { redis, load, freshMs, leaseMs = 10_000 } = o;
  const valueKey = (k: K) => `cache:{${o.name}:${o.keyOf(k)}}:value`;
  const leaseKey = (k: K) => `cache:{${o.name}:${o.keyOf(k)}}:lease`;
  const peek = (k: K) => redis.get<Boxed<V>>(valueKey(k));

  async function fill(k: K, token: string): Promise<V> {
    try {
      const already = await peek(k);
      if (already) {
        await redis.eval(DROP, [leaseKey(k)], [token]);
        return already.v;
      }
      const v = await load(k, AbortSignal.timeout(leaseMs / 2));
      // 0 means the lease ran out or the entry was invalidated meanwhile: v is still good enough
      // for this one reader, but it must not be kept.
      await redis.eval(PUBLISH, [valueKey(k), leaseKey(k)], [token, JSON.stringify({ v }), String(freshMs)]);
      return v;
    } catch (err) {
      await redis.eval(DROP, [leaseKey(k)], [token]).catch(() => {});
      throw err;
    }
  }

  return {
    async get(k) {
      for (let attempt = 0; attempt < 25; attempt++) {
        const hit = await peek(k);
        if (hit) return hit.v;
        const token = randomUUID();
        const won = await redis.set(leaseKey(k), token, { nx: true, px: leaseMs });
        if (won === 'OK') return fill(k, token);
        await sleep(80 + Math.random() * 120);
      }
      // The one who fills it is very slow. Serve this reader from the source and store nothing.
      return load(k, AbortSignal.timeout(leaseMs / 2));
    },

    /** Call it after the product was changed in the database. */
    async invalidate(k) {
      // The lease goes too, whoever has it: its holder may have read the product before the
      // change, and without the lease PUBLISH refuses what it brings.
      await redis.del(valueKey(k), leaseKey(k));
    },
  };
}
