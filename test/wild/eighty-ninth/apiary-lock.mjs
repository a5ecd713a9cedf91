/**
 * Locks of the beekeeping co-operative.
 *
 * Members enter their harvest on the phone, often two of them at the same hives. The
 * totals of an apiary are read, changed and written back, so this goes one by one.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { log } from './logger.js';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

export class ApiaryBusyError extends Error {
  constructor(apiaryId) {
    super(`apiary ${apiaryId} stayed locked`);
    this.name = 'ApiaryBusyError';
  }
}

export class ApiaryLockLostError extends Error {
  constructor(apiaryId) {
    super(`lock of apiary ${apiaryId} was lost`);
    this.name = 'ApiaryLockLostError';
  }
}

async function acquire(redis, key, token, ttlMs, waitMs) {
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const askedAt = performance.now();
    if ((await redis.set(key, token, { NX: true, PX: ttlMs })) === 'OK') {
      return askedAt + ttlMs * 0.9;
    }
    if (performance.now() >= giveUpAt) return null;
    await sleep(60 + Math.random() * 90);
  }
}

/**
 * Runs `work` while the apiary is locked.
 *
 * @template T
 * @param {import('redis').RedisClientType} redis
 * @param {string} apiaryId
 * @param {(assertHeld: () => void) => Promise<T>} work calls `assertHeld` before it
 *   writes; that throws an ApiaryLockLostError when the lock is gone
 * @param {{ ttlMs?: number, waitMs?: number }} [options]
 * @returns {Promise<T>}
 */
export async function withApiary(redis, apiaryId, work, { ttlMs = 12_000, waitMs = 6_000 } = {}) {
  const key = `apiary:${apiaryId}:lock`;
  const token = randomUUID();

  let validUntil = await acquire(redis, key, token, ttlMs, waitMs);
  if (validUntil === null) throw new ApiaryBusyError(apiaryId);

  const heartbeat = setInterval(async () => {
    const askedAt = performance.now();
    try {
      const kept = await redis.eval(RENEW, { keys: [key], arguments: [token, String(ttlMs)] });
      validUntil = kept === 1 ? askedAt + ttlMs * 0.9 : 0;
    } catch (err) {
      log.warn({ err, key }, 'renewal failed, trying again');
    }
  }, ttlMs / 4);

  const assertHeld = () => {
    // the write that follows is given two seconds
    if (performance.now() + 2_000 > validUntil) throw new ApiaryLockLostError(apiaryId);
  };

  try {
    return work(assertHeld);
  } finally {
    clearInterval(heartbeat);
    try {
      await redis.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch (err) {
      log.warn({ err, key }, 'not released, will expire');
    }
  }
}

/**
 * Adds a harvest to the totals of an apiary.
 *
 * @param {import('redis').RedisClientType} redis
 * @param {{ load(id: string): Promise<object>, save(id: string, totals: object): Promise<void> }} store
 *   aborts a `save` that takes longer than two seconds
 * @param {string} apiaryId
 * @param {{ hive: number, kg: number, sort: string }} harvest
 */
export function addHarvest(redis, store, apiaryId, harvest) {
  return withApiary(redis, apiaryId, async (assertHeld) => {
    const totals = await store.load(apiaryId);
    const kg = (totals[harvest.sort] ?? 0) + harvest.kg;

    assertHeld();
    await store.save(apiaryId, { ...totals, [harvest.sort]: kg, lastHive: harvest.hive });
    log.info({ apiaryId, ...harvest }, 'harvest entered');
    return kg;
  });
}
