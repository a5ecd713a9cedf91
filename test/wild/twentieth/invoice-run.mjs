import { Redis } from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

// Three standalone instances in three zones.
const hosts = (process.env.REDLOCK_HOSTS ?? 'redis-a,redis-b,redis-c').split(',');
const clients = hosts.map((host) => {
  const client = new Redis({ host, port: 6379, commandTimeout: 500, maxRetriesPerRequest: 1 });
  client.on('error', (err) => console.warn('redis', host, err.message));
  return client;
});

const redlock = new Redlock(clients, {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 250,
  retryJitter: 150,
});

redlock.on('error', (err) => {
  // Being locked out is the normal case on all machines but one.
  if (err instanceof ResourceLockedError) return;
  console.error('redlock', err);
});

const LOCK_MS = 20_000;
const STEP_MS = 3_000;
const SPARE_MS = 2_000;

/**
 * @typedef {object} InvoiceStore
 * @property {(month: string) => Promise<string[]>} customersWithout  customers not yet invoiced
 * @property {(month: string, customer: string, signal: AbortSignal) => Promise<void>} createInvoice
 */

/**
 * Nightly: one machine creates the month's missing invoices.
 *
 * @param {InvoiceStore} store
 * @param {string} month
 * @returns {Promise<{ran: boolean, created: number}>}
 */
export async function runInvoices(store, month) {
  let lock;
  try {
    lock = await redlock.acquire([`invoices:${month}`], LOCK_MS);
  } catch (err) {
    if (!(err instanceof ExecutionError)) throw err;
    console.info(`invoices ${month}: not run here`, err.message);
    return { ran: false, created: 0 };
  }

  let created = 0;
  try {
    // Read under the lock, so that we do not work from a list which another run has finished.
    const customers = await store.customersWithout(month);
    for (const customer of customers) {
      if (lock.expiration - Date.now() < STEP_MS + SPARE_MS) {
        // extend() hands back a new lock and throws if the quorum refuses
        lock = await lock.extend(LOCK_MS);
        if (lock.expiration - Date.now() < STEP_MS + SPARE_MS) {
          throw new Error('extension took too long');
        }
      }
      // A step is cut off before the lock can run out.
      await store.createInvoice(month, customer, AbortSignal.timeout(STEP_MS));
      created += 1;
    }
    return { ran: true, created };
  } catch (err) {
    console.error(`invoices ${month}: stopped after ${created}`, err);
    throw err;
  } finally {
    await lock.release().catch((err) => console.warn('left to expire', err.message));
  }
}

export async function shutdown() {
  await redlock.quit();
}
