'use strict';

const { createClient } = require('redis');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const knex = require('../db/knex');
const logger = require('../lib/logger');

const LOCK_SECONDS = 20;
const WAIT_MS = 8000;

const RELEASE_SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

let clientPromise;
function getClient() {
  if (!clientPromise) {
    const client = createClient({ url: process.env.REDIS_URL });
    client.on('error', (err) => logger.error({ err }, 'redis error'));
    clientPromise = client.connect().then(() => client);
  }
  return clientPromise;
}

class NumberingBusyError extends Error {
  constructor(series) {
    super(`invoice series ${series} is busy`);
    this.code = 'NUMBERING_BUSY';
  }
}

async function lockSeries(client, series) {
  const key = `invoicing:series:${series}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + WAIT_MS;

  while (Date.now() < giveUpAt) {
    const created = await client.setNX(key, token);
    if (created) {
      await client.expire(key, LOCK_SECONDS);
      return { key, token };
    }
    await sleep(50 + Math.floor(Math.random() * 100));
  }
  throw new NumberingBusyError(series);
}

async function unlockSeries(client, { key, token }) {
  try {
    await client.eval(RELEASE_SCRIPT, { keys: [key], arguments: [token] });
  } catch (err) {
    logger.warn({ err, key }, 'series lock not released');
  }
}

/**
 * Numbers must be gapless per legal entity and fiscal year, therefore no sequence here.
 */
async function issueInvoice(draftId) {
  const client = await getClient();
  const draft = await knex('invoice_drafts').where({ id: draftId }).first();
  if (!draft) throw new Error(`draft ${draftId} not found`);

  const series = `${draft.entity_code}-${draft.fiscal_year}`;
  const lock = await lockSeries(client, series);
  try {
    return await knex.transaction(async (trx) => {
      await trx.raw("SET LOCAL statement_timeout = '3s'");
      const [{ last }] = await trx('invoices').where({ series }).max({ last: 'number' });
      const number = (last ?? 0) + 1;

      // (series, number) and draft_id are unique
      const [invoice] = await trx('invoices')
        .insert({
          series,
          number,
          draft_id: draft.id,
          customer_id: draft.customer_id,
          total_cents: draft.total_cents,
          issued_at: trx.fn.now(),
        })
        .returning(['id', 'series', 'number']);
      await trx('invoice_drafts').where({ id: draft.id }).update({ status: 'issued' });
      return invoice;
    });
  } finally {
    await unlockSeries(client, lock);
  }
}

module.exports = { issueInvoice, NumberingBusyError };
