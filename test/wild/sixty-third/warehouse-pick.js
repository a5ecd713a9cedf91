import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { config } from '../config.js';
import { logger } from '../logger.js';
import { orders } from './orders.js';
import { printer } from './printer.js';

const LOCK_TTL = 30;

const RENEW_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("pexpire", KEYS[1], ARGV[2])
  end
  return 0
`;

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

const redis = createClient({
  url: config.redisUrl,
  disableOfflineQueue: true,
});
redis.on('error', (err) => logger.warn({ err }, 'redis'));
await redis.connect();

async function acquire(key) {
  const token = randomUUID();
  const reply = await redis.set(key, token, { NX: true, EX: LOCK_TTL });
  return reply === 'OK' ? token : null;
}

async function renew(key, token) {
  const reply = await redis.eval(RENEW_SCRIPT, {
    keys: [key],
    arguments: [token, String(LOCK_TTL)],
  });
  return reply === 1;
}

async function release(key, token) {
  await redis.eval(RELEASE_SCRIPT, { keys: [key], arguments: [token] });
}

/**
 * Runs `work` while holding `key`. The signal given to the work is aborted when
 * the lock could not be kept.
 */
async function withLock(key, work) {
  const token = await acquire(key);
  if (token === null) return false;

  const lost = new AbortController();
  const timer = setInterval(async () => {
    try {
      if (!(await renew(key, token))) {
        lost.abort(new Error(`lock ${key} lost`));
      }
    } catch (err) {
      lost.abort(new Error(`lock ${key} not renewed`, { cause: err }));
    }
    if (lost.signal.aborted) clearInterval(timer);
  }, (LOCK_TTL * 1000) / 3);

  try {
    await work(lost.signal);
    return true;
  } finally {
    clearInterval(timer);
    await release(key, token).catch((err) => logger.warn({ err, key }, 'lock not released'));
  }
}

/** Assigns the open orders of one zone to pickers and prints their lists. */
export async function releaseWave(warehouse, zone) {
  const ran = await withLock(`pick-wave:${warehouse}:${zone}`, async (signal) => {
    const open = await orders.findReleasable(warehouse, zone, { limit: 500, timeoutMs: 5_000 });
    logger.info({ warehouse, zone, count: open.length }, 'releasing wave');

    for (const order of open) {
      signal.throwIfAborted();
      const picker = await orders.nextPicker(warehouse, zone, { timeoutMs: 2_000 });
      await orders.assign(order.id, picker.id, { timeoutMs: 2_000 });
      await printer.printPickList(order, picker, { timeoutMs: 3_000 });
    }
  });

  if (!ran) logger.info({ warehouse, zone }, 'wave is being released by another node');
  return ran;
}
