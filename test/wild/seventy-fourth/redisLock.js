/**
 * redisLock.js
 * Simple lock on top of ioredis. Put together from a couple of gists, works fine for our
 * invoice numbering (we need numbers without gaps, so no plain INCR).
 */
const crypto = require('crypto');

const DEFAULT_TTL = 10; // seconds
const RETRY_DELAY = 100; // ms

const RELEASE_SCRIPT = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

// resolves to a token, or null if the lock is taken
async function tryLock(redis, name, ttl = DEFAULT_TTL) {
  const key = `lock:${name}`;
  const token = crypto.randomBytes(16).toString('hex');

  const locked = await redis.setnx(key, token);
  if (locked !== 1) {
    return null;
  }
  await redis.expire(key, ttl); // so that it goes away by itself
  return token;
}

async function lock(redis, name, { ttl = DEFAULT_TTL, maxWait = 5000 } = {}) {
  const end = Date.now() + maxWait;
  let token = await tryLock(redis, name, ttl);
  while (!token && Date.now() < end) {
    await sleep(RETRY_DELAY + Math.floor(Math.random() * RETRY_DELAY));
    token = await tryLock(redis, name, ttl);
  }
  if (!token) {
    throw new Error(`Could not get lock "${name}" in ${maxWait} ms`);
  }
  return token;
}

async function unlock(redis, name, token) {
  const deleted = await redis.eval(RELEASE_SCRIPT, 1, `lock:${name}`, token);
  return deleted === 1;
}

/**
 * Next free invoice number of a year. The insert fails on a duplicate (unique index), the
 * statements have a timeout of 2 s in the pool settings.
 */
async function createInvoice(redis, pool, year, customerId, cents) {
  const token = await lock(redis, `invoices:${year}`);
  try {
    const { rows } = await pool.query(
      'SELECT COALESCE(MAX(number), 0) + 1 AS next FROM invoices WHERE year = $1',
      [year]
    );
    await pool.query(
      'INSERT INTO invoices (year, number, customer_id, cents) VALUES ($1, $2, $3, $4)',
      [year, rows[0].next, customerId, cents]
    );
    return `${year}-${String(rows[0].next).padStart(5, '0')}`;
  } finally {
    await unlock(redis, `invoices:${year}`, token);
  }
}

module.exports = { tryLock, lock, unlock, createInvoice };
