'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');

const LOCK_TTL_MS = 8000;
const WORK_MS = 5000;
const WAIT_MS = 3000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// Writes only while the lock is still ours; sent twice it counts the car once.
const ADMIT = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('HSETNX', KEYS[3], ARGV[2], ARGV[3]) == 1 then
  redis.call('HINCRBY', KEYS[2], 'free', -1)
end
return 1`;

class GarageBusyError extends Error {
  constructor(garageId) {
    super(`garage ${garageId} is busy`);
    this.name = 'GarageBusyError';
  }
}

async function withGarageLock(garageId, fn) {
  const key = `{garage:${garageId}}:lock`;
  const token = randomUUID();
  const giveUpAt = Date.now() + WAIT_MS;

  for (;;) {
    const signal = AbortSignal.timeout(WORK_MS);
    const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (reply === 'OK') {
      try {
        return await fn({ key, token, signal });
      } finally {
        await redis.eval(RELEASE, 1, key, token).catch((err) => {
          console.warn('garage lock not released, it will lapse', garageId, err.message);
        });
      }
    }
    if (Date.now() >= giveUpAt) throw new GarageBusyError(garageId);
    await sleep(40 + Math.random() * 80);
  }
}

async function fetchTariff(garageId, signal) {
  const res = await fetch(`${process.env.TARIFF_URL}/garages/${garageId}/tariff`, { signal });
  if (!res.ok) throw new Error(`tariff service answered ${res.status}`);
  return res.json();
}

/**
 * Called by the barrier when a car wants in.
 * @returns {Promise<{ status: 'admitted' | 'full' | 'busy', ticket?: object }>}
 */
async function enterGarage(garageId, plate) {
  const stateKey = `{garage:${garageId}}:state`;
  const ticketsKey = `{garage:${garageId}}:tickets`;

  try {
    return await withGarageLock(garageId, async (lock) => {
      const existing = await redis.hget(ticketsKey, plate);
      if (existing) return { status: 'admitted', ticket: JSON.parse(existing) };

      const free = Number((await redis.hget(stateKey, 'free')) || 0);
      if (free < 1) return { status: 'full' };

      const { centsPerHour } = await fetchTariff(garageId, lock.signal);
      const ticket = { plate, centsPerHour, enteredAt: new Date().toISOString() };

      const written = await redis.eval(
        ADMIT, 3, lock.key, stateKey, ticketsKey,
        lock.token, plate, JSON.stringify(ticket),
      );
      if (written !== 1) throw new GarageBusyError(garageId);
      return { status: 'admitted', ticket };
    });
  } catch (err) {
    if (err instanceof GarageBusyError) return { status: 'busy' };
    throw err;
  }
}

module.exports = { enterGarage, withGarageLock, GarageBusyError };
