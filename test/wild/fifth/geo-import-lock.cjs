'use strict';

const Redis = require('ioredis');
const os = require('node:os');
const { randomUUID } = require('node:crypto');

// Import of OSM extracts. Runs on whatever box has room (ours, two at the university, a laptop
// in the field), one import per region. `until` says how long the current one has.

const TAKE = `
local until_ = redis.call('HGET', KEYS[1], 'until')
if until_ and tonumber(until_) > tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'until', ARGV[3], 'host', ARGV[4])
return 1`;

const PROLONG = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'until', ARGV[2])
  return 1
end
return 0`;

const DROP = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const LEASE_MS = 30000;
const RESERVE_MS = 5000;

function connect() {
  const redis = new Redis({
    host: process.env.REDIS_HOST || 'localhost',
    port: Number(process.env.REDIS_PORT || 6379),
  });
  redis.on('error', (err) => console.error('geo redis:', err.message));
  return redis;
}

async function take(redis, region) {
  const key = `geo:import:${region}`;
  const token = randomUUID();
  const asked = performance.now();
  const now = Date.now();
  const got = await redis.eval(TAKE, 1, key, token, now, now + LEASE_MS, os.hostname());
  if (got !== 1) return null;

  let endsAt = asked + LEASE_MS - RESERVE_MS;
  return {
    key,
    msLeft: () => endsAt - performance.now(),
    async prolong() {
      const again = performance.now();
      const kept = await redis.eval(PROLONG, 1, key, token, Date.now() + LEASE_MS);
      endsAt = kept === 1 ? again + LEASE_MS - RESERVE_MS : 0;
      return kept === 1;
    },
    async drop() {
      endsAt = 0;
      await redis.eval(DROP, 1, key, token).catch((err) => console.warn(`${key}: drop: ${err.message}`));
    },
  };
}

const BATCH_MS = 4000;

/**
 * @param {AsyncIterable<object[]>} batches
 * @param {{ insert: (region: string, rows: object[], o: { timeoutMs: number }) => Promise<void> }} db
 */
async function importRegion(redis, db, region, batches) {
  const lease = await take(redis, region);
  if (!lease) {
    const [host, until] = await redis.hmget(`geo:import:${region}`, 'host', 'until');
    console.log(`${region} is being imported by ${host} (till ${new Date(Number(until)).toISOString()})`);
    return null;
  }

  let rows = 0;
  try {
    for await (const batch of batches) {
      if (lease.msLeft() < LEASE_MS / 2 && !(await lease.prolong())) {
        throw new Error(`${region} was taken from us after ${rows} rows`);
      }
      if (lease.msLeft() < BATCH_MS) throw new Error(`${region}: no time left`);
      await db.insert(region, batch, { timeoutMs: BATCH_MS });
      rows += batch.length;
    }
    return rows;
  } finally {
    await lease.drop();
  }
}

module.exports = { connect, take, importRegion };
