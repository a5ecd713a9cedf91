import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import Redis from 'ioredis';
import { logger } from './logger';

/**
 * Nightly invoicing. The scheduler fires on every replica (we have no leader in
 * this service), so each replica tries to claim the business date first.
 *
 * What the claim promises: at most one replica starts the run of a business date.
 * It is no mutex around the run. It is never released: a run which dies half way
 * leaves the date claimed, the pager tells us (`invoice_run_failed`), and on-call
 * deletes the key by hand after a look (runbook INV-7). Missing a night is cheaper
 * for us than mailing invoices twice.
 */
const CLAIM_TTL_SECONDS = 3 * 24 * 60 * 60; // well over one period, scheduler catch-ups included

export interface ScheduledEvent {
  /** ISO time of the slot as the scheduler planned it, equal on every replica */
  scheduledAt: string;
}

export interface Customer {
  id: string;
  currency: string;
}

export interface InvoiceRepository {
  customersDue(businessDate: string): AsyncIterable<Customer>;
  /** unique on (customer_id, business_date); resolves to null if it was there */
  createInvoice(customer: Customer, businessDate: string): Promise<{ id: string } | null>;
}

export interface Mailer {
  sendInvoice(invoiceId: string): Promise<void>;
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 3,
});
redis.on('error', (err) => logger.warn({ err }, 'redis connection'));

export function businessDateOf(event: ScheduledEvent): string {
  const at = new Date(event.scheduledAt);
  if (Number.isNaN(at.getTime())) {
    throw new TypeError(`bad scheduledAt: ${event.scheduledAt}`);
  }
  return at.toISOString().slice(0, 10);
}

async function claimDate(businessDate: string): Promise<boolean> {
  const key = `invoicing:claim:${businessDate}`;
  const claimant = `${hostname()}:${process.pid}:${randomUUID()}`;

  const reply = await redis.set(key, claimant, 'EX', CLAIM_TTL_SECONDS, 'NX');
  if (reply === 'OK') {
    return true;
  }

  // ioredis sends an unanswered command again after a reconnect. If the first one
  // had been executed, the second one is refused by our own claim.
  const owner = await redis.get(key);
  if (owner === claimant) {
    logger.info({ businessDate }, 'claim was ours, reply had been lost');
    return true;
  }
  logger.info({ businessDate, owner }, 'date claimed by another replica');
  return false;
}

export function createNightlyInvoiceJob(invoices: InvoiceRepository, mailer: Mailer) {
  return async function handle(event: ScheduledEvent): Promise<{ ran: boolean; created: number }> {
    const businessDate = businessDateOf(event);

    // Redis being down means: nobody runs. The error goes up to the scheduler.
    if (!(await claimDate(businessDate))) {
      return { ran: false, created: 0 };
    }

    const startedAt = Date.now();
    let created = 0;
    try {
      for await (const customer of invoices.customersDue(businessDate)) {
        const invoice = await invoices.createInvoice(customer, businessDate);
        if (!invoice) {
          logger.debug({ customer: customer.id }, 'invoice exists');
          continue;
        }
        created += 1;
        await mailer.sendInvoice(invoice.id);
      }
    } catch (err) {
      logger.error({ err, businessDate, created, event: 'invoice_run_failed' }, 'invoice run failed');
      throw err;
    }

    logger.info({ businessDate, created, tookMs: Date.now() - startedAt }, 'invoice run done');
    return { ran: true, created };
  };
}

export async function shutdown(): Promise<void> {
  await redis.quit();
}
