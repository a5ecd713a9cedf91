import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LOCK_MS = 15_000;
const ATTEMPTS = 10;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Lock {
  key: string;
  token: string;
}

async function lockFlight(flight: string): Promise<Lock> {
  const lock: Lock = { key: `lock:flight:${flight}`, token: randomUUID() };
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const reply = await redis.set(lock.key, lock.token, { nx: true, px: LOCK_MS });
    if (reply === 'OK') break;
    console.debug(`flight ${flight} is locked, attempt ${attempt}/${ATTEMPTS}`);
    await sleep(200 + Math.random() * 100);
  }
  return lock;
}

async function unlock(lock: Lock): Promise<void> {
  await redis.eval(UNLOCK, [lock.key], [lock.token]).catch((err) => console.error('unlock', err));
}

/** Seats which departure control still lets us fill; it answers slowly on bad days. */
async function seatsReleased(flight: string): Promise<number> {
  const res = await fetch(`${process.env.DCS_URL}/flights/${flight}/released-seats`, {
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(8_000),
  });
  if (!res.ok) throw new Error(`departure control: ${res.status} for ${flight}`);
  return ((await res.json()) as { seats: number }).seats;
}

export type Rebooking = 'rebooked' | 'already on flight' | 'full';

/** Moves the passengers of a cancelled flight to another one, one booking at a time. */
export async function rebook(pnr: string, flight: string): Promise<Rebooking> {
  const seatsKey = `flight:${flight}:rebooked`;
  const lock = await lockFlight(flight);
  try {
    if (await redis.sismember(seatsKey, pnr)) return 'already on flight';

    const taken = await redis.scard(seatsKey);
    if (taken >= (await seatsReleased(flight))) return 'full';

    await redis
      .multi()
      .sadd(seatsKey, pnr)
      .rpush('ticketing:queue', JSON.stringify({ pnr, flight, at: Date.now() }))
      .exec();
    return 'rebooked';
  } finally {
    await unlock(lock);
  }
}
