import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// Buys the shipping label of a parcel. Labels cost money, so a parcel gets one:
// the store is asked first, and both steps run under the parcel's lock.
const LOCK_TTL_MS = 20_000;
const CALL_TIMEOUT_MS = 8_000; // well below the lock's TTL
const ATTEMPTS = 4;
const BACKOFF_MS = 500;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class ParcelBusyError extends Error {}

export function redisFromEnv() {
  return new Redis({
    url: process.env.UPSTASH_REDIS_REST_URL,
    token: process.env.UPSTASH_REDIS_REST_TOKEN,
  });
}

/** The carrier answers 5xx now and then; a request cut off before its 201 is void. */
async function buyLabel(carrier, parcel) {
  let lastError;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      return await carrier.buyLabel(parcel, { signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    } catch (err) {
      lastError = err;
      if (attempt < ATTEMPTS - 1) await sleep(BACKOFF_MS * 2 ** attempt);
    }
  }
  throw lastError;
}

async function release(redis, key, token) {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    console.warn('label lock left to its TTL', key, err);
  }
}

/**
 * @param {Redis} redis
 * @param {{ buyLabel(parcel: object, o: { signal: AbortSignal }): Promise<{ id: string, pdf: string }> }} carrier
 * @param {{ find(parcelId: string, o: { signal: AbortSignal }): Promise<{ id: string, pdf: string } | undefined>,
 *           save(parcelId: string, label: object, o: { signal: AbortSignal }): Promise<void> }} labels
 * @param {{ id: string }} parcel
 */
export async function labelFor(redis, carrier, labels, parcel) {
  const key = `lock:label:${parcel.id}`;
  const token = randomUUID();

  const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
  if (reply !== 'OK') {
    throw new ParcelBusyError(`a label for ${parcel.id} is being bought`);
  }

  try {
    const existing = await labels.find(parcel.id, { signal: AbortSignal.timeout(2_000) });
    if (existing) return existing;

    const label = await buyLabel(carrier, parcel);
    await labels.save(parcel.id, label, { signal: AbortSignal.timeout(2_000) });
    return label;
  } finally {
    await release(redis, key, token);
  }
}
