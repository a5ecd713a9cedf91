'use strict';

const Redis = require('ioredis');
const { randomUUID } = require('node:crypto');

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');
redis.on('error', (err) => console.error('tax-sync redis:', err.message));

redis.defineCommand('renewIfMine', {
  numberOfKeys: 1,
  lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
});
redis.defineCommand('dropIfMine', {
  numberOfKeys: 1,
  lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
});

const TTL = 30000;
const STOP_BEFORE = 5000;

/**
 * Long syncs with the tax office (a few minutes, sometimes an hour), so the lock is renewed
 * in the background. `signal` fires when we can't be sure any longer that it is ours.
 */
async function withTaxLock(companyId, sync) {
  const key = `tax:sync:${companyId}`;
  const token = randomUUID();
  let since = performance.now();
  if ((await redis.set(key, token, 'PX', TTL, 'NX')) !== 'OK') {
    return { skipped: true };
  }

  const ac = new AbortController();
  const timer = setInterval(async () => {
    const now = performance.now();
    try {
      if ((await redis.renewIfMine(key, token, TTL)) === 1) since = now;
      else ac.abort(new Error(`${key} went to somebody else`));
    } catch (err) {
      console.warn(`${key}: renew: ${err.message}`);
    }
  }, TTL / 5);
  const watch = setInterval(() => {
    if (performance.now() > since + TTL - STOP_BEFORE) ac.abort(new Error(`${key} is running out`));
  }, 500);

  const result = await sync(ac.signal);

  clearInterval(timer);
  clearInterval(watch);
  await redis.dropIfMine(key, token).catch((err) => console.warn(`${key}: release: ${err.message}`));
  return { skipped: false, result };
}

const CALL_MS = 3000;

async function syncCompany(office, db, companyId) {
  return withTaxLock(companyId, async (signal) => {
    let count = 0;
    let cursor = await db.cursorOf(companyId);
    for (;;) {
      signal.throwIfAborted();
      const page = await office.page(companyId, cursor, AbortSignal.any([signal, AbortSignal.timeout(60000)]));
      for (const doc of page.docs) {
        signal.throwIfAborted();
        await db.saveDoc(companyId, doc, { timeoutMs: CALL_MS });
        count++;
      }
      if (!page.next) return count;
      cursor = page.next;
    }
  });
}

// bull processor
module.exports = async function process(job) {
  const { office, db } = job.queue.deps;
  try {
    const out = await syncCompany(office, db, job.data.companyId);
    job.log(out.skipped ? 'someone else is syncing' : `${out.result} documents`);
  } catch (err) {
    job.log(`sync broke off: ${err.message}`);
    throw err;
  }
};
module.exports.withTaxLock = withTaxLock;
