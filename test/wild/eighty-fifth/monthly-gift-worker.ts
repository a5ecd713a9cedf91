import { randomUUID } from 'node:crypto';
import { Worker, type Job } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type Stripe from 'stripe';

const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const SETTLE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`;

const PENDING_MS = 120_000;
const REMEMBER_S = 40 * 24 * 3600;

interface GiftJob {
  pledgeId: string;
  /** e.g. 2025-03 */
  month: string;
}

export interface GiftWorkerDeps {
  queueRedis: Redis;
  redis: Redis;
  knex: Knex;
  stripe: Stripe;
  logger: Logger;
}

/** Jobs are added with { attempts: 6, backoff: { type: 'exponential', delay: 5000 } }. */
export function startGiftWorker({ queueRedis, redis, knex, stripe, logger }: GiftWorkerDeps) {
  async function charge(job: Job<GiftJob>, giftId: string): Promise<string> {
    const { pledgeId, month } = job.data;
    const pledge = await knex('pledges').where({ id: pledgeId }).timeout(5_000).first();
    if (!pledge || pledge.cancelled_at) return 'cancelled';

    const paid = await knex('gifts').where({ pledge_id: pledgeId, month }).timeout(5_000).first();
    if (paid) return paid.payment_intent;

    const intent = await stripe.paymentIntents.create(
      {
        amount: pledge.cents,
        currency: pledge.currency,
        customer: pledge.stripe_customer,
        payment_method: pledge.payment_method,
        off_session: true,
        confirm: true,
        metadata: { pledgeId, month },
      },
      { idempotencyKey: `${giftId}:${job.attemptsMade}`, timeout: 10_000, maxNetworkRetries: 1 },
    );
    await knex('gifts')
      .insert({ pledge_id: pledgeId, month, payment_intent: intent.id, cents: pledge.cents })
      .timeout(5_000);
    return intent.id;
  }

  const worker = new Worker<GiftJob, string>(
    'monthly-gifts',
    async (job) => {
      const { pledgeId, month } = job.data;
      const giftId = `gift:${pledgeId}:${month}`;
      const token = `pending:${randomUUID()}`;

      const won = await redis.set(giftId, token, 'PX', PENDING_MS, 'NX');
      if (won !== 'OK') {
        const state = await redis.get(giftId);
        if (state?.startsWith('done:')) return state.slice('done:'.length);
        throw new Error(`${giftId} is being charged elsewhere`);
      }

      try {
        const result = await charge(job, giftId);
        await redis.eval(SETTLE, 1, giftId, token, `done:${result}`, REMEMBER_S);
        return result;
      } catch (err) {
        logger.warn({ err, giftId, attempt: job.attemptsMade }, 'gift not charged, leaving it to the next attempt');
        await redis.eval(DROP, 1, giftId, token).catch((e) => logger.warn({ err: e, giftId }, 'guard left to expire'));
        throw err;
      }
    },
    { connection: queueRedis, concurrency: 8 },
  );

  worker.on('error', (err) => logger.error({ err }, 'gift worker'));
  return worker;
}
