import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';
import { logger } from './logger';
import type { BillingDb, PaymentGateway } from './types';

const TTL_MS = 30_000;
const BEAT_MS = 8_000;
const MARGIN_MS = 3_000;
const MAX_HOLD_MS = 45 * 60_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LeaseLost extends Error {
  override name = 'LeaseLost';
}

export interface Lease {
  readonly signal: AbortSignal;
  assertHeld(): void;
}

/** Runs `work` under the lease, or answers undefined when somebody else has it. */
export async function withLease<T>(
  redis: Redis,
  key: string,
  work: (lease: Lease) => Promise<T>,
): Promise<T | undefined> {
  const token = randomUUID();
  const startedAt = performance.now();
  const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (reply !== 'OK') return undefined;

  const controller = new AbortController();
  let validUntil = startedAt + TTL_MS - MARGIN_MS;
  let stopped = false;

  const lose = (reason: string) => {
    if (stopped || controller.signal.aborted) return;
    logger.error({ key, reason }, 'lease lost');
    controller.abort(new LeaseLost(`${key}: ${reason}`));
  };

  let deadline: NodeJS.Timeout;
  const arm = () => {
    clearTimeout(deadline);
    deadline = setTimeout(() => lose('not renewed in time'), Math.max(0, validUntil - performance.now()));
  };
  arm();

  const beat = setInterval(async () => {
    const sentAt = performance.now();
    if (controller.signal.aborted) return;
    if (sentAt - startedAt > MAX_HOLD_MS) return lose('held too long');
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, TTL_MS);
      if (stopped || controller.signal.aborted) return;
      if (ok !== 1) return lose('taken over or expired');
      validUntil = Math.max(validUntil, sentAt + TTL_MS - MARGIN_MS);
      arm();
    } catch (err) {
      // The next beat tries again; the deadline above ends it if none gets through.
      logger.warn({ key, err }, 'lease renewal failed');
    }
  }, BEAT_MS);

  const lease: Lease = {
    signal: controller.signal,
    assertHeld() {
      if (performance.now() >= validUntil) lose('validity passed');
      controller.signal.throwIfAborted();
    },
  };

  try {
    lease.assertHeld();
    return await work(lease);
  } finally {
    stopped = true;
    clearInterval(beat);
    clearTimeout(deadline!);
    await redis.eval(RELEASE, 1, key, token).catch((err) => logger.warn({ key, err }, 'lease release failed'));
  }
}

export interface RenewalDeps {
  redis: Redis;
  db: BillingDb;
  gateway: PaymentGateway;
}

/** Cron entry, every ten minutes on every pod. */
export async function renewDueSubscriptions({ redis, db, gateway }: RenewalDeps): Promise<number> {
  const renewed = await withLease(redis, 'billing:renewals:lease', async (lease) => {
    let count = 0;
    for await (const sub of db.dueSubscriptions({ signal: lease.signal })) {
      lease.assertHeld();
      const charge = await gateway.charge({
        customerId: sub.customerId,
        amountCents: sub.amountCents,
        // The provider answers a repeated period with the first charge.
        idempotencyKey: `renewal:${sub.id}:${sub.periodEnd}`,
        signal: lease.signal,
      });
      lease.assertHeld();
      await db.markRenewed(sub.id, { fromPeriodEnd: sub.periodEnd, chargeId: charge.id });
      count += 1;
    }
    return count;
  });
  if (renewed === undefined) logger.debug('renewals already running elsewhere');
  return renewed ?? 0;
}
