import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

// Assigns waiting parcels of a delivery zone to drivers. Two dispatchers on
// the same zone would give one parcel to two drivers.
const TTL_MS = 25_000;
const BUDGET_MS = 18_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class ZoneBusyError extends Error {
  constructor(zone) {
    super(`zone ${zone} is being dispatched`);
    this.name = 'ZoneBusyError';
  }
}

export function connect() {
  const redis = new Redis(process.env.REDIS_URL);
  redis.on('error', (err) => console.error('redis', err.message));
  return redis;
}

async function acquire(redis, zone) {
  const key = `dispatch:${zone}:lock`;
  const token = randomUUID();
  const startedAt = Date.now();

  // One round trip: take the lock and count the attempt for the dashboard.
  const replies = await redis
    .multi()
    .set(key, token, 'PX', TTL_MS, 'NX')
    .hincrby('dispatch:attempts', zone, 1)
    .exec();

  if (!replies || replies.some(([err]) => err !== null)) {
    await release(redis, key, token);
    throw new ZoneBusyError(zone);
  }
  return { key, token, validUntil: startedAt + BUDGET_MS };
}

async function release(redis, key, token) {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    console.warn('dispatch lock left to its TTL', key, err);
  }
}

/**
 * @param {import('ioredis').Redis} redis
 * @param {string} zone
 * @param {{ waiting(zone: string, o: { signal: AbortSignal }): Promise<{ id: string, weight: number }[]>,
 *           assign(parcelId: string, driverId: string, o: { signal: AbortSignal }): Promise<void> }} parcels
 * @param {{ onShift(zone: string, o: { signal: AbortSignal }): Promise<{ id: string }[]> }} drivers
 */
export async function dispatchZone(redis, zone, parcels, drivers) {
  const lock = await acquire(redis, zone);
  try {
    const left = lock.validUntil - Date.now();
    if (left <= 0) throw new ZoneBusyError(zone);
    const signal = AbortSignal.timeout(left);

    const waiting = await parcels.waiting(zone, { signal });
    const onShift = await drivers.onShift(zone, { signal });
    if (onShift.length === 0) return { assigned: 0, waiting: waiting.length };

    let assigned = 0;
    for (const parcel of waiting) {
      signal.throwIfAborted();
      const driver = onShift[assigned % onShift.length];
      await parcels.assign(parcel.id, driver.id, { signal });
      assigned++;
    }
    return { assigned, waiting: 0 };
  } finally {
    await release(redis, lock.key, lock.token);
  }
}
