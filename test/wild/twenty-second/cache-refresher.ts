import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

interface Entry<T> {
  value: T;
  freshUntil: number;
}

const FRESH_MS = 60_000;
const KEEP_MS = 10 * 60_000;
const REFRESH_GUARD_MS = 15_000;

// Stores the value and gives up the guard, provided that the guard is still ours.
const STORE = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call("SET", KEYS[2], ARGV[2], "PX", ARGV[3])
redis.call("DEL", KEYS[1])
return 1
`;

/**
 * Stale-while-revalidate cache.
 *
 * The guard is an optimisation against stampedes, not a mutual exclusion: if a
 * load takes longer than REFRESH_GUARD_MS, or on a cold miss, the source may be
 * queried more than once. Loaders must therefore be plain reads. A loader that
 * was overtaken does not overwrite the newer entry.
 */
class CacheRefresher {
  readonly #client = createClient({ url: process.env.REDIS_URL });
  #connecting: Promise<unknown> | undefined;

  constructor() {
    this.#client.on('error', (err) => console.error('[cache] redis', err));
  }

  async get<T>(name: string, load: () => Promise<T>): Promise<T> {
    await this.#connect();
    const cacheKey = `cache:{${name}}`;
    const guardKey = `refreshing:{${name}}`;

    const raw = await this.#client.get(cacheKey);
    const entry = raw === null ? null : (JSON.parse(raw) as Entry<T>);
    if (entry && Date.now() < entry.freshUntil) return entry.value;

    const token = randomUUID();
    const won = await this.#client.set(guardKey, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: REFRESH_GUARD_MS },
    });
    if (won !== 'OK') {
      // Someone is on it. Serve the stale value, or read the source without storing.
      return entry ? entry.value : load();
    }

    // If the loader throws, the guard stays for the rest of its TTL and acts as a backoff.
    const value = await load();
    const fresh: Entry<T> = { value, freshUntil: Date.now() + FRESH_MS };
    const stored = await this.#client.eval(STORE, {
      keys: [guardKey, cacheKey],
      arguments: [token, JSON.stringify(fresh), String(KEEP_MS)],
    });
    if (stored !== 1) console.info(`[cache] ${name}: overtaken, result not stored`);
    return value;
  }

  async #connect(): Promise<void> {
    this.#connecting ??= this.#client.connect().catch((err) => {
      this.#connecting = undefined;
      throw err;
    });
    await this.#connecting;
  }
}

export default new CacheRefresher();
