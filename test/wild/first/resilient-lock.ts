import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({
  url: process.env.REDIS_URL ?? 'redis://localhost:6379',
  disableOfflineQueue: true,
  commandOptions: { timeout: 700 },
});
client.on('error', (err) => console.warn('lock redis:', err.message));
client.connect().catch(() => {});

const SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

export interface Lock {
  key: string;
  token: string;
}

/**
 * @returns the lock, or null if it is taken
 */
export async function tryLock(key: string, ttlMs: number): Promise<Lock | null> {
  const token = randomUUID();
  try {
    const reply = await client.set(key, token, { NX: true, PX: ttlMs });
    return reply === 'OK' ? { key, token } : null;
  } catch (err) {
    // Redis being unavailable must not take the shop down with it.
    console.warn(`lock ${key}: ${(err as Error).message}, going on`);
    return { key, token };
  }
}

export async function unlock(lock: Lock): Promise<void> {
  try {
    await client.eval(SCRIPT, { keys: [lock.key], arguments: [lock.token] });
  } catch (err) {
    console.warn(`unlock ${lock.key}: ${(err as Error).message}`);
  }
}
