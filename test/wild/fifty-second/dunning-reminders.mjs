import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { db } from '../db/knex.mjs';
import { mailer } from '../lib/mailer.mjs';
import { redis } from '../lib/redis-client.mjs';
import { logger } from '../config/logger.mjs';

const LOCK_KEY = 'lock:dunning-reminders';
const LOCK_TTL_MS = 20 * 60_000;
const MAX_REMINDERS = 3;
const BATCH_SIZE = 100;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function withLock(key, ttlMs, fn) {
  const token = randomUUID();
  const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
  if (reply !== 'OK') return { ran: false };
  try {
    return { ran: true, value: await fn() };
  } finally {
    try {
      await redis.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch (err) {
      logger.warn({ err, key }, 'lock release failed');
    }
  }
}

async function findOverdue() {
  return db('invoices')
    .join('customers', 'customers.id', 'invoices.customer_id')
    .select('invoices.id', 'invoices.number', 'invoices.reminder_count', 'invoices.amount_cents', 'customers.email')
    .where('invoices.status', 'open')
    .andWhere('invoices.due_at', '<', db.fn.now())
    .andWhere('invoices.reminder_count', '<', MAX_REMINDERS)
    .andWhere((q) =>
      q.whereNull('invoices.reminded_at').orWhere('invoices.reminded_at', '<', db.raw("now() - interval '7 days'")),
    )
    .orderBy('invoices.due_at')
    .limit(BATCH_SIZE);
}

async function remind(invoice) {
  const level = invoice.reminder_count + 1;
  await mailer.send({
    to: invoice.email,
    template: `dunning-${level}`,
    data: { number: invoice.number, amountCents: invoice.amount_cents },
    timeoutMs: 8_000,
  });
  await db('invoices').where({ id: invoice.id }).update({ reminder_count: level, reminded_at: db.fn.now() });
}

async function run() {
  const result = await withLock(LOCK_KEY, LOCK_TTL_MS, async () => {
    const overdue = await findOverdue();
    overdue.forEach(async (invoice) => {
      try {
        await remind(invoice);
      } catch (err) {
        logger.error({ err, invoiceId: invoice.id }, 'reminder failed');
      }
    });
    return overdue.length;
  });

  if (result.ran) logger.info({ reminders: result.value }, 'dunning run finished');
  else logger.debug('dunning run active on another instance');
}

cron.schedule('*/10 * * * *', () => {
  run().catch((err) => logger.error({ err }, 'dunning run failed'));
});
