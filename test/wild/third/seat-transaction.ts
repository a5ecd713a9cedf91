import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface SeatLock {
  seat: string;
  token: string;
  validUntil: number;
}

/** Our proxy does not pass NX on, so the key is watched instead. */
export async function lockSeat(redis: Redis, seat: string, ttlMs: number): Promise<SeatLock | null> {
  const key = `seat:${seat}`;
  const token = randomUUID();
  const connection = redis.duplicate();
  try {
    const begin = performance.now();
    await connection.watch(key);
    const owner = await connection.get(key);
    if (owner !== null) {
      await connection.unwatch();
      return null;
    }
    await connection.multi().set(key, token, 'PX', ttlMs).exec();
    const validUntil = begin + ttlMs - Math.ceil(ttlMs / 50) - 2;
    return performance.now() < validUntil ? { seat, token, validUntil } : null;
  } finally {
    connection.disconnect();
  }
}

export async function unlockSeat(redis: Redis, lock: SeatLock): Promise<void> {
  await redis.eval(UNLOCK, 1, `seat:${lock.seat}`, lock.token);
}
