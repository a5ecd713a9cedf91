import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

/**
 * Nightly seller payouts. Every API pod calls runNightlyPayouts() at 02:00; one of them
 * does the work, the others return straight away. A run takes anything from a minute to
 * an hour depending on the number of sellers, hence the renewed lease.
 */

const LEASE_MS = 30_000;
const RENEW_EVERY_MS = 5_000;

const RENEW = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface Payout {
  id: string;
  sellerId: string;
  amountCents: number;
  currency: string;
}

export interface PayoutDeps {
  listPending(): Promise<Payout[]>;
  /** The bank treats a repeated idempotency key as the same transfer. */
  transfer(payout: Payout, opts: { idempotencyKey: string; signal: AbortSignal }): Promise<string>;
  markPaid(payoutId: string, bankRef: string): Promise<void>;
}

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

interface Lease {
  signal: AbortSignal;
  assertHeld(): void;
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  maxRetriesPerRequest: 3,
});
redis.on('error', (err) => console.error('[payouts] redis', err.message));

export async function withLease<T>(
  name: string,
  fn: (lease: Lease) => Promise<T>,
): Promise<T | undefined> {
  const key = `lease:${name}`;
  const token = randomUUID();
  const lost = new AbortController();

  let validUntil = Date.now() + LEASE_MS;
  const acquired = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
  if (acquired !== 'OK') return undefined;

  const giveUp = (why: string) => {
    clearInterval(timer);
    lost.abort(new LeaseLostError(`${name}: ${why}`));
  };

  let renewing = false;
  const timer = setInterval(async () => {
    // Judge by the next tick, so that we never notice only after the key is gone.
    if (Date.now() + RENEW_EVERY_MS >= validUntil) return giveUp('not renewed in time');
    if (renewing) return;
    renewing = true;
    const sentAt = Date.now();
    try {
      const renewed = await redis.eval(RENEW, 1, key, token, LEASE_MS);
      if (renewed === 1) validUntil = sentAt + LEASE_MS;
      else giveUp('taken over');
    } catch (err) {
      // Transient; the deadline above decides when it is no longer transient.
      console.warn('[payouts] renewal failed, will try again', (err as Error).message);
    } finally {
      renewing = false;
    }
  }, RENEW_EVERY_MS);

  try {
    return await fn({
      signal: lost.signal,
      assertHeld() {
        lost.signal.throwIfAborted();
        if (Date.now() >= validUntil) {
          giveUp('expired');
          lost.signal.throwIfAborted();
        }
      },
    });
  } finally {
    clearInterval(timer);
    await redis
      .eval(RELEASE, 1, key, token)
      .catch((err) => console.warn('[payouts] release failed, lease will lapse', err.message));
  }
}

export async function runNightlyPayouts(deps: PayoutDeps): Promise<{ paid: number } | 'busy'> {
  const result = await withLease('nightly-payouts', async (lease) => {
    let paid = 0;
    for (const payout of await deps.listPending()) {
      lease.assertHeld();
      const ref = await deps.transfer(payout, {
        idempotencyKey: `payout-${payout.id}`,
        signal: lease.signal,
      });
      await deps.markPaid(payout.id, ref);
      paid += 1;
    }
    return { paid };
  });
  return result ?? 'busy';
}
