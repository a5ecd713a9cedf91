#!/usr/bin/env node
'use strict';

const crypto = require('node:crypto');
const { createClient } = require('redis');

const LOCK_KEY = 'lock:feed-import';
// seconds; an import is cut off after ten minutes
const LOCK_TTL = Number(process.env.FEED_LOCK_TTL || 900);
const IMPORT_LIMIT_MS = 10 * 60 * 1000;
const BATCH = 200;

const UNLOCK = [
  "if redis.call('GET', KEYS[1]) == ARGV[1] then",
  "  return redis.call('DEL', KEYS[1])",
  'end',
  'return 0',
].join('\n');

async function download(url, signal) {
  const res = await fetch(url, { signal });
  if (!res.ok) throw new Error(`${url}: HTTP ${res.status}`);
  const text = await res.text();
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => {
      const [sku, title, price, stock] = line.split('\t');
      return { sku, title, price, stock };
    });
}

async function importFeed(client, url, signal) {
  const items = await download(url, signal);
  const generation = Number((await client.get('feed:generation')) || 0) + 1;
  const index = `feed:index:${generation}`; // old generations are swept by feed-gc
  await client.del(index);

  for (let i = 0; i < items.length; i += BATCH) {
    signal.throwIfAborted();
    const tx = client.multi();
    for (const item of items.slice(i, i + BATCH)) {
      tx.hSet(`feed:item:${generation}:${item.sku}`, item);
      tx.sAdd(index, item.sku);
    }
    await tx.exec();
  }

  signal.throwIfAborted();
  await client.set('feed:generation', String(generation));
  return { generation, count: items.length };
}

async function unlock(client, token) {
  try {
    await client.eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] });
  } catch (err) {
    console.error('feed-import: unlock failed:', err.message);
  }
}

async function main() {
  const url = process.argv[2];
  if (!url) {
    console.error('usage: feed-import <url>');
    return 64;
  }

  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on('error', (err) => console.error('feed-import: redis:', err.message));
  await client.connect();

  const token = crypto.randomBytes(20).toString('hex');
  try {
    const reply = await client.set(LOCK_KEY, token, { NX: true, PX: LOCK_TTL });
    if (reply !== 'OK') {
      console.log('feed-import: another import is running');
      return 75;
    }
    const { generation, count } = await importFeed(client, url, AbortSignal.timeout(IMPORT_LIMIT_MS));
    console.log(`feed-import: generation ${generation}, ${count} items`);
    return 0;
  } finally {
    await unlock(client, token);
    await client.disconnect();
  }
}

main().then(
  (code) => { process.exitCode = code; },
  (err) => {
    console.error('feed-import:', err);
    process.exitCode = 1;
  },
);
