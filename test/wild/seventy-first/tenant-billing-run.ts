import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import type { Knex } from 'knex';

/**
 * Usage billing per tenant.
 *
 * Runs from three places: the hourly job, the "close period" button in the
 * back office, and after every plan change (customer sees the new amount at once).
 */

const LOCK_SECONDS = 60 * 60;

const UNLOCK_SCRIPT = `
local held = redis.call("GET", KEYS[1])
if held == ARGV[1] then
  redis.call("DEL", KEYS[1])
  return 1
end
return 0
`;

interface Holder {
  token: string;
  trigger: BillingTrigger;
  startedAt: string;
}

export type BillingTrigger = 'schedule' | 'backoffice' | 'plan-change';

export class BillingInProgress extends Error {
  constructor(tenantId: string, readonly holder: Holder | null) {
    super(
      holder
        ? `billing of ${tenantId} in progress since ${holder.startedAt} (${holder.trigger})`
        : `billing of ${tenantId} in progress`,
    );
    this.name = 'BillingInProgress';
  }
}

export class TenantBilling {
  constructor(
    private readonly db: Knex,
    private readonly redis: Redis = Redis.fromEnv(),
  ) {}

  async run(tenantId: string, period: string, trigger: BillingTrigger) {
    const key = `billing:${tenantId}`;
    const holder: Holder = { token: randomUUID(), trigger, startedAt: new Date().toISOString() };

    const locked = await this.redis.set(key, holder, { nx: true, ex: LOCK_SECONDS });
    if (locked !== 'OK') {
      throw new BillingInProgress(tenantId, await this.redis.get<Holder>(key));
    }

    try {
      return await this.bill(tenantId, period);
    } finally {
      await this.redis
        .eval(UNLOCK_SCRIPT, [key], [holder.token])
        .catch((err) => console.warn('billing: unlock failed', tenantId, err));
    }
  }

  private async bill(tenantId: string, period: string) {
    return this.db.transaction(async (trx) => {
      await trx.raw(`SET LOCAL statement_timeout = '60s'`);
      const plan = await trx('tenant_plans').where({ tenant_id: tenantId }).first();
      if (!plan) return { lines: 0, totalCents: 0 };

      const usage: Array<{ meter: string; quantity: string }> = await trx('usage_events')
        .where({ tenant_id: tenantId, period })
        .groupBy('meter')
        .select('meter')
        .sum({ quantity: 'quantity' });

      let totalCents = plan.base_cents as number;
      const lines = usage.map((u) => {
        const included = plan.included?.[u.meter] ?? 0;
        const over = Math.max(0, Number(u.quantity) - included);
        const cents = Math.ceil(over * (plan.unit_cents?.[u.meter] ?? 0));
        totalCents += cents;
        return { tenant_id: tenantId, period, meter: u.meter, quantity: Number(u.quantity), cents };
      });

      if (lines.length > 0) {
        await trx('bill_lines').insert(lines).onConflict(['tenant_id', 'period', 'meter']).merge();
      }
      await trx('bills')
        .insert({ tenant_id: tenantId, period, total_cents: totalCents })
        .onConflict(['tenant_id', 'period'])
        .merge();
      return { lines: lines.length, totalCents };
    });
  }
}
