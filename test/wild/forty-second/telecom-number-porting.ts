import Redis from 'ioredis';
import Redlock, { ResourceLockedError, type RedlockAbortSignal } from 'redlock5';
import { Pool } from 'pg';

// three stand-alone masters in three zones, no replication between them
const nodes = ['redis-a.core.internal', 'redis-b.core.internal', 'redis-c.core.internal'].map(
  (host) => new Redis({ host, port: 6379, maxRetriesPerRequest: 1, commandTimeout: 500 }),
);

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 100,
  automaticExtensionThreshold: 12_000,
});
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn('redlock', err);
});

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
  query_timeout: 3_000,
});

export interface PortRequest {
  msisdn: string;
  donor: string;
  recipient: string;
  requestId: string;
}

function stillOurs(signal: RedlockAbortSignal): void {
  if (signal.aborted) throw signal.error ?? new Error('porting lock lost');
}

async function clearinghouse(path: string, body: unknown): Promise<{ ref: string }> {
  const res = await fetch(`${process.env.CLEARINGHOUSE_URL}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(5_000),
  });
  if (!res.ok) throw new Error(`clearinghouse ${path} -> ${res.status}`);
  return (await res.json()) as { ref: string };
}

/**
 * Ports one number. Only one process may talk to the clearinghouse about a
 * given msisdn, it rejects the whole day's file if it sees two open orders.
 * Five steps, none longer than 5s.
 */
export async function portNumber(req: PortRequest): Promise<string> {
  return redlock.using([`porting:${req.msisdn}`], 30_000, async (signal) => {
    const open = await pool.query('SELECT ref, state FROM port_orders WHERE msisdn = $1 AND state <> $2', [
      req.msisdn,
      'closed',
    ]);
    if (open.rowCount) {
      throw new Error(`msisdn ${req.msisdn} already has open order ${open.rows[0].ref}`);
    }

    stillOurs(signal);
    const order = await clearinghouse('/orders', req);

    stillOurs(signal);
    await pool.query('INSERT INTO port_orders (msisdn, ref, state, request_id) VALUES ($1, $2, $3, $4)', [
      req.msisdn,
      order.ref,
      'open',
      req.requestId,
    ]);

    stillOurs(signal);
    await clearinghouse(`/orders/${order.ref}/confirm`, { recipient: req.recipient });

    stillOurs(signal);
    await pool.query('UPDATE port_orders SET state = $1 WHERE ref = $2', ['confirmed', order.ref]);
    return order.ref;
  });
}
