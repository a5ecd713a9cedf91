import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';
import { pool } from './db.js';

const redlock = new Redlock(
  [process.env.REDIS_ONE!, process.env.REDIS_TWO!, process.env.REDIS_THREE!].map((url) => new Redis(url)),
  { driftFactor: 0.01, retryCount: 25, retryDelay: 200, retryJitter: 100 },
);

redlock.on('error', (err: unknown) => {
  if (err instanceof ResourceLockedError) return;
  console.warn('redlock', err);
});

export interface Draft {
  id: string;
  entity: string;
  totalCents: number;
}

const format = (n: { entity: string; year: number; seq: number }) =>
  `${n.entity}-${n.year}-${String(n.seq).padStart(6, '0')}`;

/**
 * Gives a draft the next gapless number of its legal entity.
 * invoices has UNIQUE (entity, year, seq) and UNIQUE (draft_id).
 */
export async function issueInvoice(draft: Draft, year: number): Promise<string> {
  return redlock.using(
    [`invoice-seq:${draft.entity}:${year}`],
    15_000,
    { automaticExtensionThreshold: 4_000 },
    async (signal) => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        await client.query("SET LOCAL statement_timeout = '4s'");
        const issued = await client.query(
          'SELECT entity, year, seq FROM invoices WHERE draft_id = $1',
          [draft.id],
        );
        if (issued.rows[0]) {
          await client.query('COMMIT');
          return format(issued.rows[0]);
        }
        const last = await client.query(
          'SELECT coalesce(max(seq), 0) AS seq FROM invoices WHERE entity = $1 AND year = $2',
          [draft.entity, year],
        );
        const seq = Number(last.rows[0].seq) + 1;
        await client.query(
          `INSERT INTO invoices (draft_id, entity, year, seq, total_cents, issued_at)
           VALUES ($1, $2, $3, $4, $5, now())`,
          [draft.id, draft.entity, year, seq, draft.totalCents],
        );
        if (signal.aborted) throw signal.error ?? new Error('lock lost');
        await client.query('COMMIT');
        return format({ entity: draft.entity, year, seq });
      } catch (err) {
        await client.query('ROLLBACK').catch(() => undefined);
        throw err;
      } finally {
        client.release();
      }
    },
  );
}
