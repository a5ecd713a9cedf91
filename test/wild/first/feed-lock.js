import { randomUUID } from 'node:crypto';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Lock around the refresh of a feed.
 * @param {ReturnType<typeof import('redis').createClient>} client
 */
export function createFeedLock(client, { ttl = 6000, attempts = 10, interval = 200 } = {}) {
  async function acquire(feed) {
    const key = `feed:${feed}:refresh`;
    const token = randomUUID();
    for (let i = 0; i < attempts; i++) {
      const acquired = await client.set(key, token, { NX: true, PX: ttl });
      if (acquired !== false) {
        return { key, token };
      }
      await delay(interval);
    }
    return null;
  }

  async function release({ key, token }) {
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
  }

  return { acquire, release };
}
