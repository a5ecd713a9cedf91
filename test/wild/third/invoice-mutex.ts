import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.error('redis', err.message));

export class MutexTimeoutError extends Error {}

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export interface MutexOptions {
  ttl?: number;
  wait?: number;
  retryEvery?: number;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function unlock(key: string, token: string): Promise<void> {
  await redis.eval(UNLOCK, 1, key, token).catch((err: Error) => {
    console.warn(`unlock ${key}: ${err.message}`);
  });
}

/**
 * One invoice at a time. `fn` gets a signal which is aborted before the key can expire in Redis; writes to the books
 * have to stop then.
 */
export async function withInvoiceLock<T>(
  invoiceId: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { ttl = 20_000, wait = 5_000, retryEvery = 120 }: MutexOptions = {},
): Promise<T> {
  const key = `mutex:invoice:${invoiceId}`;
  const giveUp = performance.now() + wait;

  while (true) {
    const token = randomUUID();
    const sent = performance.now();
    let reply: 'OK' | null;
    try {
      reply = await redis.set(key, token, 'PX', ttl, 'NX');
    } catch (err) {
      await unlock(key, token);
      throw err;
    }

    if (reply === 'OK') {
      const end = sent + ttl * 0.98 - 10;
      const left = end - performance.now();
      if (left > 0) {
        const abort = new AbortController();
        const timer = setTimeout(() => abort.abort(new MutexTimeoutError(`${invoiceId} took too long`)), left);
        try {
          const value = await fn(abort.signal);
          abort.signal.throwIfAborted();
          return value;
        } finally {
          clearTimeout(timer);
          await unlock(key, token);
        }
      }
      await unlock(key, token);
    }

    if (performance.now() > giveUp) throw new MutexTimeoutError(`invoice ${invoiceId} is locked`);
    await pause(retryEvery + Math.random() * retryEvery);
  }
}
