'use strict';

const { randomUUID } = require('node:crypto');
const Router = require('@koa/router');
const { z } = require('zod');
const knex = require('../db');
const redis = require('../lib/redis');
const logger = require('../config/logger');

const LOCK_TTL_MS = 60_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const paramsSchema = z.object({ id: z.coerce.number().int().positive() });

const router = new Router({ prefix: '/campaigns' });

async function queueRecipients(campaignId) {
  return knex.transaction(async (trx) => {
    await trx.raw("SET LOCAL statement_timeout = '10s'");
    const campaign = await trx('campaigns').where({ id: campaignId }).first();
    if (!campaign) return { status: 404, body: { error: 'not_found' } };
    if (campaign.status !== 'draft') return { status: 409, body: { error: 'already_sent' } };

    const inserted = await trx.raw(
      `INSERT INTO campaign_recipients (campaign_id, subscriber_id, status)
       SELECT ?, s.id, 'queued' FROM subscribers s
        WHERE s.list_id = ? AND s.unsubscribed_at IS NULL
       ON CONFLICT (campaign_id, subscriber_id) DO NOTHING`,
      [campaignId, campaign.list_id],
    );
    const updated = await trx('campaigns')
      .where({ id: campaignId, status: 'draft' })
      .update({ status: 'queued', queued_at: trx.fn.now() });
    if (updated !== 1) throw new Error(`campaign ${campaignId} changed while queueing`);

    return { status: 202, body: { recipients: inserted.rowCount } };
  });
}

router.post('/:id/send', async (ctx) => {
  const params = paramsSchema.safeParse(ctx.params);
  if (!params.success) {
    ctx.status = 400;
    ctx.body = { error: 'invalid_id' };
    return;
  }

  const campaignId = params.data.id;
  const key = `lock:campaign-send:${campaignId}`;
  const token = randomUUID();

  const locked = await redis.setnx(key, token);
  if (locked !== 1) {
    ctx.status = 409;
    ctx.body = { error: 'send_in_progress' };
    return;
  }
  await redis.pexpire(key, LOCK_TTL_MS);

  try {
    const result = await queueRecipients(campaignId);
    ctx.status = result.status;
    ctx.body = result.body;
  } finally {
    try {
      await redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      logger.warn({ err, key }, 'campaign lock release failed');
    }
  }
});

module.exports = router;
