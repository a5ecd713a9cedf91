import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { Pool } from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';

const pool = new Pool();
const redis = new Redis(process.env.REDIS_URL!, {
  commandTimeout: 2_000,
  maxRetriesPerRequest: 1,
});
redis.on('error', (err) => console.error('[redis]', err.message));

interface Invoice {
  id: string;
  status: 'pending' | 'sent';
  document: unknown;
}

/**
 * Runs `work` while holding a mutex on `name`.
 * Resolves to false when another worker has it.
 */
async function tryWithMutex(
  name: string,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const lost = new AbortController();
  const mutex = new Mutex(redis, name, {
    lockTimeout: 60_000,
    refreshInterval: 15_000,
    onLockLost: (err) => lost.abort(err),
  });
  if (!(await mutex.tryAcquire())) return false;
  try {
    await work(lost.signal);
    return true;
  } finally {
    try {
      await mutex.release();
    } catch (err) {
      console.warn('release of %s failed, it will time out: %s', name, (err as Error).message);
    }
  }
}

/**
 * Sends one invoice to the e-invoicing network. The whole step is limited to
 * 30 s, half of the mutex timeout; the network drops a repeated delivery with
 * the same Idempotency-Key.
 */
async function sendInvoice(id: string, lost: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([lost, AbortSignal.timeout(30_000)]);

  // Read again under the mutex: it may have been sent since the id was listed.
  const { rows } = await pool.query<Invoice>('SELECT id, status, document FROM invoices WHERE id = $1', [id]);
  const invoice = rows[0];
  if (!invoice || invoice.status !== 'pending') return;

  signal.throwIfAborted();
  const res = await fetch(`${process.env.EINVOICE_URL}/deliveries`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'idempotency-key': `invoice-${invoice.id}`,
    },
    body: JSON.stringify(invoice.document),
    signal,
  });
  if (!res.ok) throw new Error(`delivery of ${id} failed with ${res.status}`);
  const { deliveryId } = (await res.json()) as { deliveryId: string };

  const update = await pool.query(
    `UPDATE invoices SET status = 'sent', delivery_id = $2, sent_at = now()
      WHERE id = $1 AND status = 'pending'`,
    [id, deliveryId],
  );
  if (update.rowCount === 0) console.warn('invoice %s was already marked as sent', id);
}

export async function runWorker(stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    let sent = 0;
    try {
      const { rows } = await pool.query<{ id: string }>(
        `SELECT id FROM invoices WHERE status = 'pending' ORDER BY created_at LIMIT 20`,
      );
      for (const { id } of rows) {
        if (stop.aborted) break;
        try {
          if (await tryWithMutex(`invoice:${id}`, (lost) => sendInvoice(id, lost))) sent++;
        } catch (err) {
          console.error('invoice %s', id, err);
        }
      }
    } catch (err) {
      console.error('worker round failed', err);
    }
    if (sent === 0) await sleep(3_000, undefined, { signal: stop }).catch(() => {});
  }
}

if (process.argv[2] === 'run') {
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort());
  await runWorker(stop.signal);
  await Promise.allSettled([pool.end(), redis.quit()]);
}
