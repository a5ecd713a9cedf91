'use strict';
const crypto = require('node:crypto');
const { Redis } = require('ioredis');

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

let client;
function getClient() {
  if (!client) {
    client = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');
    client.on('error', (err) => console.error('[price-sync] redis', err.message));
  }
  return client;
}

const metrics = { acquired: 0, contended: 0 };

class LockContended extends Error {}

async function withLock(name, ttlMs, fn, redis = getClient()) {
  const key = `lock:${name}`;
  const token = crypto.randomUUID();
  const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
  if (reply !== 'OK') {
    metrics.contended += 1;
    throw new LockContended(`${name} is locked`);
  }
  metrics.acquired += 1;
  try {
    return fn();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err) => {
      console.warn('[price-sync] release failed', err.message);
    });
  }
}

async function syncSupplier(supplier, api, store) {
  return withLock(`prices:${supplier}`, 60_000, async () => {
    let updated = 0;
    for await (const page of api.pages(supplier)) {
      for (const row of page) {
        await store.setPrice(supplier, row.sku, row.cents);
        updated += 1;
      }
    }
    return updated;
  });
}

function centsToDecimal(cents) {
  return (cents / 100).toFixed(2);
}

module.exports = { withLock, syncSupplier, centsToDecimal, LockContended, metrics };
