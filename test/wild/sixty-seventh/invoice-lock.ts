import { randomBytes } from 'node:crypto';
import Redis from 'ioredis';
import { counter, histogram } from './metrics';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface Lease {
  /** Aborts as soon as we cannot be sure any more that the lock is ours. */
  signal: AbortSignal;
  /** Throws when the lease ran out, even if timers had no chance to fire yet. */
  check(): void;
}

/**
 * Runs `fn` under the lock `key`. The lease is renewed three times per TTL as
 * long as `fn` runs; a renewal that cannot be confirmed in time aborts it.
 */
export async function withLock<T>(key: string, ttlMs: number, fn: (lease: Lease) => Promise<T>): Promise<T> {
  const token = randomBytes(16).toString('hex');
  const margin = Math.ceil(ttlMs * 0.1);
  const abort = new AbortController();
  let validUntil = 0;

  const release = () =>
    redis.eval(RELEASE, 1, key, token).catch((err) => {
      // The key goes away on its own after ttlMs.
      console.warn('release of %s failed: %s', key, err.message);
    });

  let sentAt = Date.now();
  let ok: string | null;
  try {
    ok = await redis.set(key, token, 'PX', ttlMs, 'NX');
  } catch (err) {
    // The SET may have been executed although we never saw its reply.
    await release();
    throw err;
  }
  if (ok !== 'OK') throw new LockBusyError(key);
  validUntil = sentAt + ttlMs - margin;

  const lose = (why: string) => {
    if (abort.signal.aborted) return;
    counter('lock_lost').inc({ key });
    abort.abort(new LockLostError(`${key}: ${why}`));
  };

  const check = () => {
    if (Date.now() >= validUntil) lose('lease ran out');
    abort.signal.throwIfAborted();
  };

  let stopped = false;
  let timer: NodeJS.Timeout;
  let guard: NodeJS.Timeout;

  const armGuard = () => {
    clearTimeout(guard);
    guard = setTimeout(() => lose('lease ran out'), Math.max(0, validUntil - Date.now()));
  };

  const renew = async () => {
    sentAt = Date.now();
    const startedAt = sentAt;
    try {
      const n = await redis.eval(EXTEND, 1, key, token, ttlMs);
      if (stopped) return;
      if (n !== 1) return lose('taken over or expired');
      validUntil = startedAt + ttlMs - margin;
      armGuard();
    } catch (err) {
      // Try again; the guard aborts when validUntil passes without success.
      console.warn('renewal of %s failed: %s', key, (err as Error).message);
    }
    if (!stopped && !abort.signal.aborted) timer = setTimeout(renew, ttlMs / 3);
  };

  armGuard();
  timer = setTimeout(renew, ttlMs / 3);
  const stop = histogram('lock_held_ms').startTimer({ key });
  try {
    check();
    const result = await fn({ signal: abort.signal, check });
    check();
    return result;
  } finally {
    stopped = true;
    clearTimeout(timer!);
    clearTimeout(guard!);
    stop();
    await release();
  }
}

export async function sendInvoices(customerId: string, invoices: { id: string; body: unknown }[]) {
  return withLock(`lock:invoices:${customerId}`, 30_000, async ({ signal, check }) => {
    for (const invoice of invoices) {
      check();
      // The mail gateway drops repeats of an Idempotency-Key, so a request that
      // is already on the wire when the lease ends cannot send a second mail.
      const res = await fetch(`${process.env.MAIL_API}/invoices`, {
        method: 'POST',
        signal,
        headers: { 'content-type': 'application/json', 'idempotency-key': invoice.id },
        body: JSON.stringify(invoice.body),
      });
      if (!res.ok) throw new Error(`invoice ${invoice.id}: HTTP ${res.status}`);
    }
  });
}
