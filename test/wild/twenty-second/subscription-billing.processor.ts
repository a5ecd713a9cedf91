import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

interface BillingJob {
  id: string;
  data: { subscriptionId: string; period: string; amountCents: number };
}

export interface BillingDeps {
  client: RedisClientType;
  invoices: {
    isPaid(subscriptionId: string, period: string): Promise<boolean>;
    markPaid(subscriptionId: string, period: string, chargeId: string): Promise<void>;
  };
  payments: {
    charge(subscriptionId: string, amountCents: number, signal: AbortSignal): Promise<{ id: string }>;
  };
}

const LOCK = {
  prefix: 'lock:billing',
  // Two minutes comfortably cover a slow payment provider.
  ttl: 120,
  // The work has to be over well before the lock expires.
  budgetMs: 60_000,
};

// Compare-and-delete, so we can never remove somebody else's lock.
const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

/**
 * Charges one billing period of a subscription. The queue delivers jobs at least
 * once, so the same period can arrive at two workers at the same time; the lock
 * together with the `isPaid` check makes sure the customer is charged once.
 */
export function createBillingProcessor({ client, invoices, payments }: BillingDeps) {
  return async function processBilling(job: BillingJob): Promise<{ status: 'charged' | 'already-paid' }> {
    const { subscriptionId, period, amountCents } = job.data;
    const key = `${LOCK.prefix}:${subscriptionId}`;
    const token = randomUUID();

    const deadline = performance.now() + LOCK.budgetMs;
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: LOCK.ttl },
    });
    if (reply !== 'OK') {
      // Throwing lets the queue retry the job with its usual backoff.
      throw new Error(`Subscription ${subscriptionId} is being billed by another worker`);
    }

    try {
      if (await invoices.isPaid(subscriptionId, period)) {
        return { status: 'already-paid' };
      }

      // Never start a charge that could outlive our budget.
      const remaining = Math.floor(deadline - performance.now());
      if (remaining <= 0) throw new Error(`Job ${job.id} ran out of time before charging`);

      const charge = await payments.charge(subscriptionId, amountCents, AbortSignal.timeout(remaining));
      await invoices.markPaid(subscriptionId, period, charge.id);
      return { status: 'charged' };
    } finally {
      await client
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => console.warn(`[billing] could not release ${key}`, err));
    }
  };
}
