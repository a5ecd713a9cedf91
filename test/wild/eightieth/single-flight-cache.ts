import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[1])
return 1`;

const GIVE_UP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface FlightOptions<A extends unknown[], T> {
  key: (...args: A) => string;
  load: (signal: AbortSignal, ...args: A) => Promise<T>;
  freshMs: number;
  /** longest time a load may take */
  budgetMs?: number;
}

class Scripts {
  private shas = new Map<string, Promise<string>>();
  constructor(private readonly redis: Redis) {}

  async run(lua: string, keys: string[], args: (string | number)[]): Promise<unknown> {
    let sha = this.shas.get(lua);
    if (!sha) {
      sha = this.redis.script('LOAD', lua) as Promise<string>;
      this.shas.set(lua, sha);
      sha.catch(() => this.shas.delete(lua));
    }
    try {
      return await this.redis.evalsha(await sha, keys.length, ...keys, ...args);
    } catch (err) {
      if (!String((err as Error).message).startsWith('NOSCRIPT')) throw err;
      this.shas.delete(lua);
      return this.redis.eval(lua, keys.length, ...keys, ...args);
    }
  }
}

export function singleFlight<A extends unknown[], T>(redis: Redis, opts: FlightOptions<A, T>) {
  const { key, load, freshMs, budgetMs = 8_000 } = opts;
  const scripts = new Scripts(redis);

  return async (...args: A): Promise<T> => {
    const name = key(...args);
    const dataKey = `cache:{${name}}`;
    const lockKey = `cache:{${name}}:loading`;
    const token = randomBytes(16).toString('hex');
    const end = performance.now() + budgetMs * 2;

    while (performance.now() < end) {
      const hit = await redis.get(dataKey);
      if (hit !== null) return JSON.parse(hit) as T;

      const mine = await redis.set(lockKey, token, 'PX', budgetMs * 2, 'NX');
      if (mine !== 'OK') {
        await pause(50 + Math.random() * 50);
        continue;
      }

      try {
        const again = await redis.get(dataKey);
        if (again !== null) {
          await scripts.run(GIVE_UP, [lockKey], [token]);
          return JSON.parse(again) as T;
        }
        const value = await load(AbortSignal.timeout(budgetMs), ...args);
        await scripts.run(PUBLISH, [lockKey, dataKey], [token, JSON.stringify(value), freshMs]);
        return value;
      } catch (err) {
        await scripts.run(GIVE_UP, [lockKey], [token]).catch(() => undefined);
        throw err;
      }
    }
    throw new Error(`${name} is still being loaded elsewhere`);
  };
}

export const exchangeRates = (redis: Redis) =>
  singleFlight(redis, {
    key: (base: string) => `fx:${base}`,
    freshMs: 60_000,
    load: async (signal, base: string) => {
      const res = await fetch(`https://api.frankfurter.dev/v1/latest?base=${base}`, { signal });
      if (!res.ok) throw new Error(`fx ${res.status}`);
      return (await res.json()) as { rates: Record<string, number> };
    },
  });
