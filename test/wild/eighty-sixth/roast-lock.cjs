// Shared lock helper for the roasting services.
//
//   const { withLock } = require('@beans/roast-lock');
//   await withLock(`drum:${drumId}`, () => startBatch(drumId, recipe), { ttl: 60_000 });
const Redis = require('ioredis');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

const PREFIX = process.env.LOCK_PREFIX || 'roast:lock:';
const GRACE = 5_000;

let client;
function redis() {
  if (!client) {
    client = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000 });
    client.on('error', (err) => console.error('[roast-lock]', err.message));
  }
  return client;
}

class LockBusy extends Error {
  constructor(name) {
    super(`lock ${name} is busy`);
    this.code = 'LOCK_BUSY';
  }
}

class LockTimeout extends Error {
  constructor(name, ms) {
    super(`work under lock ${name} took more than ${ms} ms`);
    this.code = 'LOCK_TIMEOUT';
  }
}

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function take(name, ttl, wait) {
  const token = randomUUID();
  const until = performance.now() + wait;
  for (;;) {
    const at = performance.now();
    if ((await redis().set(PREFIX + name, token, 'PX', ttl, 'NX')) === 'OK') return { token, at };
    if (performance.now() >= until) throw new LockBusy(name);
    await sleep(75 + Math.random() * 100);
  }
}

async function give(name, token) {
  try {
    await redis().eval(UNLOCK, 1, PREFIX + name, token);
  } catch (err) {
    console.warn(`[roast-lock] ${name} left to expire: ${err.message}`);
  }
}

/**
 * Runs fn while holding the lock and resolves to its result. fn has until
 * shortly before the ttl; later than that withLock rejects with LOCK_TIMEOUT.
 */
async function withLock(name, fn, { ttl = 30_000, wait = 10_000 } = {}) {
  if (ttl <= GRACE) throw new RangeError(`ttl must be above ${GRACE} ms`);
  const { token, at } = await take(name, ttl, wait);
  const budget = Math.max(0, at + ttl - GRACE - performance.now());
  let timer;
  const overdue = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new LockTimeout(name, ttl - GRACE)), budget);
  });
  try {
    return await Promise.race([fn(), overdue]);
  } finally {
    clearTimeout(timer);
    await give(name, token);
  }
}

/** Like withLock, but resolves to undefined at once when the lock is taken. */
async function tryWithLock(name, fn, options = {}) {
  try {
    return await withLock(name, fn, { ...options, wait: 0 });
  } catch (err) {
    if (err instanceof LockBusy) return undefined;
    throw err;
  }
}

async function close() {
  if (client) await client.quit();
  client = undefined;
}

module.exports = { withLock, tryWithLock, close, LockBusy, LockTimeout };
