import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// Thumbnails are addressed by the digest of the original, so every render of the same
// key yields the same bytes. The lock is only there to keep a popular picture from being
// rendered by fifty workers at once when it drops out of the cache; if one is rendered
// twice after all, nothing but a little CPU is lost.

const CACHE_SECONDS = 24 * 60 * 60;
const LOCK_MS = 15_000;
const WAIT_MS = 8_000;
const POLL_MS = 75;

const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`;

let clientPromise;

function getClient() {
  clientPromise ??= (async () => {
    const client = createClient({ url: process.env.REDIS_URL });
    client.on('error', (err) => console.error('thumbnail cache: redis error', err.message));
    await client.connect();
    return client;
  })();
  return clientPromise;
}

async function readCache(client, cacheKey) {
  const hit = await client.get(cacheKey);
  return hit === null ? null : Buffer.from(hit, 'base64');
}

async function renderAndStore(client, cacheKey, render) {
  const image = await render();
  await client.set(cacheKey, image.toString('base64'), { EX: CACHE_SECONDS });
  return image;
}

async function tryLock(client, lockKey) {
  const token = randomUUID();
  const reply = await client.set(lockKey, token, { NX: true, PX: LOCK_MS });
  if (reply !== 'OK') return null;

  return async function unlock() {
    try {
      await client.eval(RELEASE, { keys: [lockKey], arguments: [token] });
    } catch (err) {
      console.warn(`thumbnail cache: could not release ${lockKey}`, err.message);
    }
  };
}

/**
 * @param {string} digest sha256 of the original picture
 * @param {number} width
 * @param {() => Promise<Buffer>} render
 * @returns {Promise<Buffer>}
 */
export async function getThumbnail(digest, width, render) {
  const client = await getClient();
  const cacheKey = `thumb:${digest}:${width}`;
  const lockKey = `${cacheKey}:rendering`;

  const waitUntil = Date.now() + WAIT_MS;
  do {
    const cached = await readCache(client, cacheKey);
    if (cached) return cached;

    const unlock = await tryLock(client, lockKey);
    if (unlock) {
      try {
        // Somebody may have finished between our look at the cache and the lock.
        const fresh = await readCache(client, cacheKey);
        return fresh ?? (await renderAndStore(client, cacheKey, render));
      } finally {
        await unlock();
      }
    }

    await sleep(POLL_MS + Math.random() * POLL_MS);
  } while (Date.now() < waitUntil);

  // The reader should not have to wait for a renderer that is stuck: make our own copy.
  console.info(`thumbnail cache: waited ${WAIT_MS}ms for ${cacheKey}, rendering locally`);
  return render();
}
