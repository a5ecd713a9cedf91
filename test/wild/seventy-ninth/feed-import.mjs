import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { createClient } from 'redis';
import { config } from '../config.mjs';
import { upsertProducts } from './products.mjs';

const redis = createClient({ url: config.redisUrl });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const LOCK_MS = 10 * 60_000;

async function download(feed) {
  const res = await fetch(feed.url, { signal: AbortSignal.timeout(60_000) });
  if (!res.ok) throw new Error(`${feed.name}: HTTP ${res.status}`);
  return res.json();
}

export async function importFeed(feed) {
  const key = `feed:${feed.name}:import`;
  const runId = randomUUID();
  try {
    const ok = await redis.set(key, runId, { NX: true, PX: LOCK_MS });
    if (!ok) {
      console.log('%s is already being imported', feed.name);
      return { imported: 0, skipped: true };
    }
    const items = await download(feed);
    const imported = await upsertProducts(items, { timeoutMs: 120_000 });
    console.log('%s: run %s imported %d', feed.name, runId, imported);
    return { imported, skipped: false };
  } finally {
    await redis.del(key);
  }
}

cron.schedule('*/5 * * * *', async () => {
  for (const feed of config.feeds) {
    try {
      await importFeed(feed);
    } catch (err) {
      console.error('feed %s failed', feed.name, err);
    }
  }
});
