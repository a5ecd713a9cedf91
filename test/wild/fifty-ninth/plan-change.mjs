import Router from '@koa/router';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import knexFactory from 'knex';
import { z } from 'zod';
import { config } from './config.mjs';
import { log } from './log.mjs';
import { quoteProration } from './billing.mjs';

const redis = createClient({ url: config.redisUrl, disableOfflineQueue: true });
redis.on('error', (err) => log.warn({ err }, 'redis'));
await redis.connect();

const knex = knexFactory(config.knex);

const LOCK_TTL_MS = 20_000;
const WORK_BUDGET_MS = 10_000;
const MAX_ACQUIRE_MS = 2_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Lets one request per subscription through at a time; the others get 423 and may come again.
 * Handlers find a signal in ctx.state.signal that fires well before the lock expires.
 */
export function exclusive(keyOf) {
  return async (ctx, next) => {
    const key = `lock:${keyOf(ctx)}`;
    const token = randomUUID();
    const askedAt = Date.now();

    const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
    if (reply !== 'OK') {
      ctx.status = 423;
      ctx.set('Retry-After', '3');
      ctx.body = { error: 'another change is under way' };
      return;
    }

    try {
      if (Date.now() - askedAt > MAX_ACQUIRE_MS) ctx.throw(503, 'lock service too slow');
      ctx.state.signal = AbortSignal.timeout(WORK_BUDGET_MS);
      await next();
    } finally {
      try {
        await redis.eval(RELEASE, { keys: [key], arguments: [token] });
      } catch (err) {
        log.warn({ err, key }, 'release failed');
      }
    }
  };
}

const Body = z.object({ plan: z.enum(['basic', 'duo', 'family', 'cinema']) });

export const router = new Router({ prefix: '/subscriptions' });

router.put('/:id/plan', exclusive((ctx) => `subscription:${ctx.params.id}`), async (ctx) => {
  const { plan } = Body.parse(ctx.request.body);
  const { signal } = ctx.state;

  const sub = await knex('subscriptions').where({ id: ctx.params.id, account_id: ctx.state.user.accountId }).first();
  if (!sub) ctx.throw(404);
  if (sub.plan === plan) {
    ctx.body = { plan, changed: false };
    return;
  }

  // asks for a price, books nothing
  const quote = await quoteProration({ from: sub.plan, to: plan, renewsAt: sub.renews_at }, { signal });
  signal.throwIfAborted();

  // The version keeps us honest should we have been asleep for longer than the lock lives.
  const changed = await knex.transaction(async (trx) => {
    const n = await trx('subscriptions')
      .where({ id: sub.id, version: sub.version })
      .update({ plan, version: sub.version + 1, updated_at: trx.fn.now() })
      .timeout(3_000, { cancel: true });
    if (n !== 1) return false;
    await trx('billing_outbox').insert({
      subscription_id: sub.id,
      dedupe_key: `${sub.id}:${sub.version + 1}`,
      amount_cents: quote.amountCents,
      kind: 'proration',
    });
    return true;
  });

  if (!changed) ctx.throw(409, 'subscription was changed meanwhile');
  log.info({ sub: sub.id, from: sub.plan, to: plan, cents: quote.amountCents }, 'plan changed');
  ctx.body = { plan, changed: true, amountCents: quote.amountCents };
});
