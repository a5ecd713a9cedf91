import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LockBusy extends Error {}
export class LockLost extends Error {}

export interface HeldLock {
  signal: AbortSignal;
  assertHeld(): void;
}

async function release(client: RedisClient, key: string, token: string): Promise<void> {
  try {
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    // The TTL frees it in that case.
    console.warn('could not release %s', key, err);
  }
}

/** Waits up to waitMs for the lock; returns the time (performance.now) until which we may rely on it. */
async function acquire(client: RedisClient, key: string, token: string, ttlMs: number, waitMs: number): Promise<number> {
  const giveUpAt = performance.now() + waitMs;
  for (let attempt = 0; ; attempt++) {
    const sentAt = performance.now();
    let reply: unknown;
    try {
      reply = await client.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: ttlMs } });
    } catch (err) {
      // We do not know whether the SET got through.
      await release(client, key, token);
      throw err;
    }
    if (reply === 'OK') {
      const validUntil = sentAt + ttlMs * 0.95;
      if (performance.now() < validUntil) return validUntil;
      await release(client, key, token);
      throw new LockLost(`${key} was granted too late`);
    }
    const backoff = Math.min(1_000, 40 * 2 ** attempt) * (0.5 + Math.random() / 2);
    if (performance.now() + backoff > giveUpAt) throw new LockBusy(`${key} is busy`);
    await sleep(backoff);
  }
}

export async function withLock<T>(
  client: RedisClient,
  name: string,
  ttlMs: number,
  fn: (lock: HeldLock) => Promise<T>,
  waitMs = 10_000,
): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const validUntil = await acquire(client, key, token, ttlMs, waitMs);
  const lapse = new AbortController();
  const timer = setTimeout(() => lapse.abort(new LockLost(`${key} lapsed`)), validUntil - performance.now());
  const assertHeld = () => {
    if (performance.now() >= validUntil) throw new LockLost(`${key} lapsed`);
  };
  try {
    const result = await fn({ signal: lapse.signal, assertHeld });
    // Too late is an error as well: the caller has to look at what became of it.
    assertHeld();
    return result;
  } finally {
    clearTimeout(timer);
    await release(client, key, token);
  }
}

export interface Ledger {
  lastNumber(tenant: string, signal: AbortSignal): Promise<number>;
  /** Refuses a number that is taken; a second append of the same draft id changes nothing. */
  append(tenant: string, number: number, draft: { id: string }, signal: AbortSignal): Promise<void>;
}

export function issueInvoice(client: RedisClient, ledger: Ledger, tenant: string, draft: { id: string }): Promise<number> {
  return withLock(client, `invoice:${tenant}`, 15_000, async (lock) => {
    const next = (await ledger.lastNumber(tenant, lock.signal)) + 1;
    lock.assertHeld();
    await ledger.append(tenant, next, draft, lock.signal);
    return next;
  });
}
