import cron from 'node-cron';
import Redis from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'direct-debits' });

const redis = new Redis(process.env.REDIS_URL!);
const redlock = new Redlock([redis], { retryCount: 0, automaticExtensionThreshold: 5_000 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) log.warn({ err }, 'redlock');
});

const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });

interface Mandate {
  id: string;
  iban: string;
  donor_name: string;
  amount_cents: number;
}

async function dueMandates(): Promise<Mandate[]> {
  const { rows } = await pool.query<Mandate>(
    `SELECT id, iban, donor_name, amount_cents
       FROM mandates
      WHERE active AND next_collection <= current_date
      ORDER BY id`,
  );
  return rows;
}

async function collect(mandate: Mandate): Promise<string> {
  const res = await fetch(`${process.env.SEPA_URL}/collections`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.SEPA_TOKEN}` },
    body: JSON.stringify({
      iban: mandate.iban,
      name: mandate.donor_name,
      amount: mandate.amount_cents,
    }),
    signal: AbortSignal.timeout(15_000),
  });
  if (!res.ok) throw new Error(`sepa gateway ${res.status}`);
  return ((await res.json()) as { reference: string }).reference;
}

async function markCollected(mandate: Mandate, reference: string): Promise<void> {
  await pool.query(
    `UPDATE mandates
        SET next_collection = next_collection + interval '1 month', last_reference = $2
      WHERE id = $1`,
    [mandate.id, reference],
  );
}

export async function collectDue(): Promise<void> {
  try {
    await redlock.using(['direct-debits:collect'], 30_000, async (signal) => {
      const mandates = await dueMandates();
      log.info({ count: mandates.length }, 'collecting');

      mandates.forEach(async (mandate) => {
        if (signal.aborted) return;
        try {
          const reference = await collect(mandate);
          await markCollected(mandate, reference);
        } catch (err) {
          log.error({ err, mandate: mandate.id }, 'collection failed');
        }
      });
    });
    log.info('run finished');
  } catch (err) {
    if (err instanceof ResourceLockedError) {
      log.info('another instance is collecting');
      return;
    }
    throw err;
  }
}

// every five minutes, mandates can become due at any time of the day; all
// three app servers run this file
cron.schedule('*/5 * * * *', () => {
  collectDue().catch((err) => log.error({ err }, 'run failed'));
});
