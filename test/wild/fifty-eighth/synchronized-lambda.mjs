// AWS Lambda, timeout 60 s, triggered by EventBridge and by hand from the admin panel.
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { readCatalogPages, swapAlias, writeIndex } from './search.mjs';

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.error('redis error', err.message));

// longer than the Lambda timeout, so an invocation can never outlive its lock
const LOCK_TTL_MS = 90_000;

redis.defineCommand('unlock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0
  `,
});

/**
 * Wraps `fn` so that only one invocation of it runs at a time across the whole account.
 * Calls that find the lock taken return `{ skipped: true }`.
 */
export function synchronized(name, fn) {
  const key = `lambda-lock:${name}`;

  return async function (...args) {
    const token = randomUUID();
    const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (reply !== 'OK') {
      console.log(`${name} is already running`);
      return { skipped: true };
    }

    try {
      return fn(...args);
    } finally {
      // release even if fn throws
      await redis.unlock(key, token).catch((err) => {
        console.warn(`could not unlock ${key}, it will expire`, err.message);
      });
    }
  };
}

async function rebuildIndex(event) {
  const index = `catalog-${event.time ?? new Date().toISOString()}`.toLowerCase().replace(/[^a-z0-9-]/g, '-');
  let documents = 0;

  for await (const page of readCatalogPages({ size: 500 })) {
    await writeIndex(index, page);
    documents += page.length;
  }

  await swapAlias('catalog', index);
  console.log(`indexed ${documents} documents into ${index}`);
  return { index, documents };
}

export const handler = synchronized('rebuild-index', rebuildIndex);
