// Pulls new statement lines of a connected bank account. Triggered by the
// bank's webhook, by the "refresh" button and by the hourly sweep.
import { Redis } from '@upstash/redis';
import { Pool } from 'pg';
import { nanoid } from 'nanoid';
import { z } from 'zod';

const redis = Redis.fromEnv();
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  query_timeout: 4_000,
  statement_timeout: 4_000,
});

const LOCK_MS = 60_000;
const BANK_MS = 15_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

const Page = z.object({
  cursor: z.string(),
  lines: z
    .array(z.object({ id: z.string(), bookedOn: z.string(), cents: z.number().int(), text: z.string() }))
    .max(200),
});

async function fetchPage(accountId: string, cursor: string | null) {
  const url = new URL(`/accounts/${accountId}/statement`, process.env.BANK_API_URL);
  if (cursor) url.searchParams.set('after', cursor);
  const res = await fetch(url, {
    headers: { authorization: `Bearer ${process.env.BANK_API_TOKEN}` },
    signal: AbortSignal.timeout(BANK_MS),
  });
  if (!res.ok) throw new Error(`bank api: ${res.status}`);
  return Page.parse(await res.json());
}

async function importPage(accountId: string): Promise<number> {
  const { rows } = await pool.query('SELECT cursor FROM bank_accounts WHERE id = $1', [accountId]);
  if (rows.length === 0) throw new Error(`unknown account ${accountId}`);
  const before: string | null = rows[0].cursor;
  const page = await fetchPage(accountId, before);
  if (page.lines.length === 0) return 0;

  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const moved = await db.query(
      'UPDATE bank_accounts SET cursor = $3 WHERE id = $1 AND cursor IS NOT DISTINCT FROM $2',
      [accountId, before, page.cursor],
    );
    if (moved.rowCount !== 1) throw new Error(`cursor of ${accountId} moved meanwhile`);
    const added = await db.query(
      `INSERT INTO statement_lines (account_id, external_id, booked_on, cents, text)
       SELECT $1, l.id, l."bookedOn"::date, l.cents, l.text
         FROM jsonb_to_recordset($2::jsonb) AS l(id text, "bookedOn" text, cents bigint, text text)
       ON CONFLICT (account_id, external_id) DO NOTHING`,
      [accountId, JSON.stringify(page.lines)],
    );
    await db.query('COMMIT');
    return added.rowCount ?? 0;
  } catch (err) {
    await db.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    db.release();
  }
}

export type ImportResult = { status: 'busy' } | { status: 'done'; added: number };

/** One page per call; the sweep comes round again for the rest. */
export async function importStatement(accountId: string): Promise<ImportResult> {
  const key = `statement-import:${accountId}`;
  const token = nanoid();

  const taken = await redis.set(key, token, { nx: true, px: LOCK_MS });
  if (taken !== 'OK') return { status: 'busy' };

  try {
    return { status: 'done', added: await importPage(accountId) };
  } finally {
    try {
      await redis.eval(RELEASE, [key], [token]);
    } catch (err) {
      console.warn('statement import: lock left to expire', accountId, err);
    }
  }
}
