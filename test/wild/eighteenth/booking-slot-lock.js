import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const HOLD_MS = 10_000;

// The hash stays for an hour so that the admin page can show who held a slot last.
const HISTORY_MS = 60 * 60 * 1_000;

// KEYS[1] slot; ARGV: token, now, held until, history, label
const ACQUIRE = `
local held = redis.call('HMGET', KEYS[1], 'token', 'until')
if held[1] and tonumber(held[2]) > tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'until', ARGV[3], 'label', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`;

// KEYS[1] slot; ARGV: token
const RELEASE = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'token', 'until')
  return 1
end
return 0`;

export function connect() {
  const redis = new Redis(process.env.REDIS_URL);
  redis.on('error', (err) => console.warn('redis: %s', err.message));
  return redis;
}

async function release(redis, key, token) {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    console.warn('release of %s failed, the hold ends by itself: %s', key, err.message);
  }
}

/**
 * Runs book(signal) while nobody else can book the slot. Tries for a few seconds.
 *
 * @template T
 * @param {Redis} redis
 * @param {string} slotId
 * @param {string} label shown on the admin page
 * @param {(signal: AbortSignal) => Promise<T>} book
 * @returns {Promise<T>}
 */
export async function withSlot(redis, slotId, label, book) {
  const key = `slot:${slotId}`;
  const token = randomUUID();

  for (let attempt = 1; attempt <= 8; attempt++) {
    const sentAt = performance.now();
    const now = Date.now();
    let granted;
    try {
      granted = await redis.eval(ACQUIRE, 1, key, token, now, now + HOLD_MS, HISTORY_MS, label);
    } catch (err) {
      await release(redis, key, token);
      throw err;
    }

    if (granted === 1) {
      const validUntil = sentAt + HOLD_MS * 0.9;
      try {
        const left = Math.floor(validUntil - performance.now());
        if (left <= 0) throw new Error(`slot ${slotId} was granted too late`);
        const result = await book(AbortSignal.timeout(left));
        if (performance.now() >= validUntil) throw new Error(`slot ${slotId}: hold ran out while booking`);
        return result;
      } finally {
        await release(redis, key, token);
      }
    }
    await sleep(100 * attempt * (0.5 + Math.random()));
  }
  throw new Error(`slot ${slotId} is being booked by someone else`);
}
