import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 1000,
  maxRetriesPerRequest: 1,
});
redis.on('error', (err) => console.error('redis', err.message));

const DELETE_IF_OWNER = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const EXTEND_IF_OWNER = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface WithLockOptions {
  /** How long the key lives without a renewal. */
  ttlMs?: number;
}

/**
 * Runs `work` while no other process runs it for the same key. Reports can take minutes, so the lock is renewed
 * every third of its TTL. The signal aborts before the key can expire; `work` has to stop then.
 */
export async function withLock<T>(
  key: string,
  work: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 12_000 }: WithLockOptions = {},
): Promise<T> {
  const lockKey = `lock:report:${key}`;
  const token = randomUUID();
  const usable = ttlMs - Math.ceil(ttlMs * 0.02) - 50;
  const lost = new AbortController();
  let done = false;
  let expiry: NodeJS.Timeout | undefined;

  const giveBack = () => redis.eval(DELETE_IF_OWNER, 1, lockKey, token);
  const abort = () => lost.abort(new LockLostError(`lock ${key} was lost`));
  const validFrom = (sentAt: number) => {
    if (done || lost.signal.aborted) return;
    clearTimeout(expiry);
    expiry = setTimeout(abort, Math.max(0, sentAt + usable - performance.now()));
  };

  const sentAt = performance.now();
  let reply: string | null;
  try {
    reply = await redis.set(lockKey, token, 'PX', ttlMs, 'NX');
  } catch (err) {
    await giveBack().catch(() => {});
    throw err;
  }
  if (reply !== 'OK') throw new LockBusyError(`lock ${key} is taken`);
  if (performance.now() - sentAt >= usable) {
    await giveBack().catch(() => {});
    throw new LockLostError(`lock ${key} took too long`);
  }
  validFrom(sentAt);

  const renewal = setInterval(async () => {
    const renewedAt = performance.now();
    try {
      const renewed = await redis.eval(EXTEND_IF_OWNER, 1, lockKey, token, ttlMs);
      if (renewed === 1) validFrom(renewedAt);
      else if (!done) abort();
    } catch {
      // The next one may succeed; if none does, the expiry timer fires.
    }
  }, ttlMs / 3);

  try {
    const result = await work(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    done = true;
    clearInterval(renewal);
    clearTimeout(expiry);
    await giveBack().catch((err) => console.warn(`could not release ${key}`, err));
  }
}
