import cron from 'node-cron';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { z } from 'zod';
import { format, subMonths } from 'date-fns';
import { invoices } from './repositories/invoices.mjs';
import { renderPdf } from './pdf.mjs';
import { sendInvoice } from './mail.mjs';
import { log } from './log.mjs';

const env = z
  .object({
    REDIS_URL: z.string().url(),
    INVOICE_CRON: z.string().default('0 3 * * *'),
    // how long the lock of the job lives, and after how long the job gives up
    INVOICE_LOCK_TTL: z.coerce.number().int().positive().default(900),
    INVOICE_JOB_LIMIT: z.coerce.number().int().positive().default(780),
  })
  .parse(process.env);

const redis = createClient({ url: env.REDIS_URL });
redis.on('error', (err) => log.warn({ err }, 'redis'));
await redis.connect();

const LOCK_KEY = 'cron:invoices';

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/** School meals are invoiced monthly; open invoices are looked for every night. */
async function sendOpenInvoices(signal) {
  const month = format(subMonths(new Date(), 1), 'yyyy-MM');
  const open = await invoices.findUnsent(month, { signal });
  let sent = 0;

  for (const invoice of open) {
    signal.throwIfAborted();
    const pdf = await renderPdf(invoice);
    await sendInvoice(invoice.guardian.email, pdf, { signal });
    await invoices.markSent(invoice.id, new Date());
    sent += 1;
  }
  return { month, sent };
}

/**
 * All three replicas wake up at the same time, one of them gets the lock and works through the
 * list; the others leave. Parents must not get the same invoice three times.
 */
export async function runOnce() {
  const token = randomUUID();
  const reply = await redis.set(LOCK_KEY, token, { NX: true, PX: env.INVOICE_LOCK_TTL });
  if (reply !== 'OK') {
    log.debug('invoices are sent by another replica');
    return;
  }

  const startedAt = Date.now();
  try {
    const signal = AbortSignal.timeout(env.INVOICE_JOB_LIMIT * 1000);
    const result = await sendOpenInvoices(signal);
    log.info({ ...result, ms: Date.now() - startedAt }, 'invoices sent');
  } finally {
    try {
      await redis.eval(RELEASE, { keys: [LOCK_KEY], arguments: [token] });
    } catch (err) {
      log.warn({ err }, 'could not release invoice lock');
    }
  }
}

const task = cron.schedule(env.INVOICE_CRON, () => {
  runOnce().catch((err) => log.error({ err }, 'invoice run failed'));
});

process.once('SIGTERM', async () => {
  task.stop();
  await redis.quit();
});
