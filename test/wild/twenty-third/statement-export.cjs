'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const TTL_MS = 60_000;
const SAFETY_MS = 10_000;
const WAIT_MS = 5_000;

function createRedis(url) {
  const redis = new Redis(url, { maxRetriesPerRequest: 3 });
  redis.defineCommand('releaseIfMine', {
    numberOfKeys: 1,
    lua: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
      end
      return 0`,
  });
  return redis;
}

/**
 * Runs fn(signal) under the lock, or returns undefined when the lock stays busy.
 * The signal fires SAFETY_MS before the lock can expire, counted from the moment
 * the winning SET was sent.
 */
async function withLock(redis, key, log, fn) {
  const token = randomUUID();
  const giveUpAt = performance.now() + WAIT_MS;

  let budget = 0;
  for (;;) {
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
    if (reply === 'OK') {
      budget = Math.floor(TTL_MS - SAFETY_MS - (performance.now() - sentAt));
      break;
    }
    if (performance.now() >= giveUpAt) return undefined;
    await sleep(100 + Math.random() * 200);
  }

  try {
    if (budget <= 0) throw new Error(`lock ${key} was granted too late to be used`);
    return await fn(AbortSignal.timeout(budget));
  } finally {
    await redis.releaseIfMine(key, token).catch((err) => {
      log.warn({ err, key }, 'lock not released, it will expire');
    });
  }
}

/**
 * Builds the monthly statement of an account once and files it. The PDF is stored
 * under a name made of account and month, with a put that refuses to overwrite,
 * and the index has (account_id, month) as its primary key: whoever comes second,
 * even long after its lock ran out, changes nothing.
 */
function createStatementExporter({ redis, ledger, renderer, store, db, log }) {
  return async function exportStatement({ accountId, month }) {
    const objectName = `statements/${accountId}/${month}.pdf`;

    const outcome = await withLock(redis, `statement:${accountId}:${month}`, log, async (signal) => {
      if (!(await store.exists(objectName, { signal }))) {
        const closed = await ledger.closedMonth(accountId, month, { signal });
        const pdf = await renderer.render('statement', closed, { signal });
        signal.throwIfAborted();
        const created = await store.put(objectName, pdf, { ifNoneMatch: '*', signal });
        if (!created) log.info({ objectName }, 'statement was already filed');
      }

      signal.throwIfAborted();
      await db.query(
        `INSERT INTO statement_index (account_id, month, object_name)
         VALUES ($1, $2, $3)
         ON CONFLICT (account_id, month) DO NOTHING`,
        [accountId, month, objectName],
      );
      return 'filed';
    });

    if (outcome === undefined) {
      // The queue delivers the job again after its visibility timeout.
      throw new Error(`statement ${accountId}/${month} is being exported by another worker`);
    }
    return outcome;
  };
}

module.exports = { createRedis, createStatementExporter, withLock };
