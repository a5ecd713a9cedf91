import type { Knex } from 'knex';
import type Redis from 'ioredis';
import { Mutex, TimeoutError } from 'redis-semaphore';
import pino from 'pino';

const log = pino({ name: 'vouchers' });

export class CampaignExhausted extends Error {
  constructor(readonly campaignId: string) {
    super(`campaign ${campaignId} has no vouchers left`);
  }
}

export class CampaignBusy extends Error {
  constructor(readonly campaignId: string) {
    super(`campaign ${campaignId} is busy, try again`);
  }
}

interface VoucherRow {
  id: number;
  code: string;
  campaign_id: string;
  assigned_to: string | null;
}

interface Deps {
  knex: Knex;
  redis: Redis;
}

async function exclusively<T>(redis: Redis, campaignId: string, fn: () => Promise<T>): Promise<T> {
  const mutex = new Mutex(redis, `voucher-campaign:${campaignId}`, {
    lockTimeout: 10_000,
    acquireTimeout: 4_000,
    retryInterval: 50,
    refreshInterval: 3_000,
  });
  try {
    await mutex.acquire();
  } catch (err) {
    if (err instanceof TimeoutError) throw new CampaignBusy(campaignId);
    throw err;
  }
  try {
    return await fn();
  } finally {
    await mutex.release();
  }
}

export function createVoucherAllocator({ knex, redis }: Deps) {
  return async function allocate(campaignId: string, customerId: string): Promise<string> {
    return knex.transaction(async (trx) => {
      await trx.raw("SET LOCAL statement_timeout = '3s'");

      const voucher = await exclusively(redis, campaignId, async () => {
        const next = await trx<VoucherRow>('vouchers')
          .where({ campaign_id: campaignId })
          .whereNull('assigned_to')
          .orderBy('id')
          .first();
        if (!next) throw new CampaignExhausted(campaignId);
        await trx<VoucherRow>('vouchers').where({ id: next.id }).update({ assigned_to: customerId });
        return next;
      });

      await trx('voucher_events').insert({
        voucher_id: voucher.id,
        customer_id: customerId,
        event: 'ASSIGNED',
        created_at: trx.fn.now(),
      });
      await trx('customer_mails').insert({
        customer_id: customerId,
        template: 'voucher',
        payload: JSON.stringify({ code: voucher.code }),
      });

      log.info({ campaignId, voucherId: voucher.id }, 'voucher assigned');
      return voucher.code;
    });
  };
}
