'use strict';

// Metered billing: folds raw usage events into the tenant's monthly bill.
// Started every minute by cron on each of the worker machines; the lock makes one of them do it.

const crypto = require('node:crypto');
const { Redis } = require('@upstash/redis');

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL,
  token: process.env.UPSTASH_REDIS_REST_TOKEN,
});

const LOCK_TTL_MS = 60 * 1000;
const MAX_RUN_MS = 45 * 1000; // must stay well below the ttl
const CHUNK = 200;

const RELEASE_SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function withLock(name, fn) {
  const key = `locks:${name}`;
  const token = crypto.randomBytes(16).toString('hex');
  const deadline = Date.now() + MAX_RUN_MS;

  const ok = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
  if (ok !== 'OK') return { skipped: true };

  let timer;
  const tooLong = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${name} did not finish in ${MAX_RUN_MS}ms`)),
      Math.max(0, deadline - Date.now()),
    );
  });

  try {
    // the run never gets to outlive the lock
    return await Promise.race([fn(), tooLong]);
  } finally {
    clearTimeout(timer);
    await redis.eval(RELEASE_SCRIPT, [key], [token]).catch((err) => {
      console.warn(`[rollup] release of ${key} failed`, err);
    });
  }
}

async function priceEvents(tenant, events) {
  const res = await fetch(`${process.env.PRICING_URL}/tenants/${tenant}/price`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  if (!res.ok) throw new Error(`pricing answered ${res.status}`);
  const { totalMicros } = await res.json();
  return totalMicros;
}

async function rollupTenant(tenant) {
  return withLock(`rollup:${tenant}`, async () => {
    let cursor = Number((await redis.get(`usage:${tenant}:cursor`)) ?? 0);
    let folded = 0;

    for (;;) {
      const events = await redis.lrange(`usage:${tenant}:events`, cursor, cursor + CHUNK - 1);
      if (events.length === 0) return { folded };

      const micros = await priceEvents(tenant, events);
      cursor += events.length;
      folded += events.length;

      // bill and cursor move together, so a crash never bills a chunk twice
      await redis
        .multi()
        .hincrby(`bill:${tenant}`, new Date().toISOString().slice(0, 7), micros)
        .set(`usage:${tenant}:cursor`, cursor)
        .exec();
    }
  });
}

async function main() {
  const tenants = await redis.smembers('tenants:metered');
  for (const tenant of tenants) {
    try {
      const out = await rollupTenant(tenant);
      if (!out.skipped) console.log(`[rollup] ${tenant}: ${out.folded} events`);
    } catch (err) {
      console.error(`[rollup] ${tenant}`, err);
    }
  }
}

module.exports = { rollupTenant, main };

if (require.main === module) main();
