import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename } from 'node:fs/promises';
import { once } from 'node:events';
import path from 'node:path';
import { format, startOfMonth } from 'date-fns';
import { Redis } from 'ioredis';
import type { Pool } from 'pg';

/*
 * Monthly VAT report per tenant. Finance people like to press "Export" several
 * times, and the query is expensive, so only one export per tenant at a time.
 */

const LEASE_MS = 20_000;

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

interface Lease {
  signal: AbortSignal;
  end(): Promise<void>;
}

export async function takeLease(redis: Redis, key: string): Promise<Lease | null> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', LEASE_MS, 'NX')) !== 'OK') return null;

  const ctl = new AbortController();
  let lastOk = performance.now();
  const timer = setInterval(async () => {
    const asked = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, LEASE_MS);
      if (ok === 1) lastOk = asked;
      else ctl.abort(new Error(`lease ${key} lost`));
    } catch (err) {
      if (performance.now() - lastOk > LEASE_MS * 0.7) ctl.abort(err);
    }
  }, LEASE_MS / 5);

  return {
    signal: ctl.signal,
    async end() {
      clearInterval(timer);
      await redis.eval(DROP, 1, key, token).catch(() => 0);
    },
  };
}

export type ExportResult =
  | { status: 'busy' }
  | { status: 'empty' }
  | { status: 'done'; file: string; lines: number };

interface VatLine {
  invoice_no: string;
  issued_on: Date;
  country: string;
  net_cents: string;
  vat_cents: string;
}

const PAGE = 2_000;

export async function exportVatReport(
  deps: { redis: Redis; pool: Pool; dir: string },
  tenantId: string,
  month: Date,
): Promise<ExportResult> {
  const { redis, pool, dir } = deps;
  const from = startOfMonth(month);
  const label = format(from, 'yyyy-MM');

  const lease = await takeLease(redis, `export:vat:${tenantId}`);
  if (!lease) return { status: 'busy' };

  const { rows: [summary] } = await pool.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM vat_lines
      WHERE tenant_id = $1 AND date_trunc('month', issued_on) = $2`,
    [tenantId, from],
  );
  if (!summary || summary.n === 0) {
    return { status: 'empty' };
  }

  try {
    const file = path.join(dir, `${tenantId}-vat-${label}.csv`);
    const tmp = `${file}.${randomUUID()}.tmp`;
    const out = createWriteStream(tmp, { encoding: 'utf8' });
    out.write('invoice;date;country;net;vat\n');

    let lines = 0;
    let after = '';
    for (;;) {
      lease.signal.throwIfAborted();
      const { rows } = await pool.query<VatLine>(
        `SELECT invoice_no, issued_on, country, net_cents, vat_cents FROM vat_lines
          WHERE tenant_id = $1 AND date_trunc('month', issued_on) = $2 AND invoice_no > $3
          ORDER BY invoice_no LIMIT ${PAGE}`,
        [tenantId, from, after],
      );
      for (const r of rows) {
        const line = [r.invoice_no, format(r.issued_on, 'yyyy-MM-dd'), r.country, r.net_cents, r.vat_cents].join(';');
        if (!out.write(line + '\n')) await once(out, 'drain');
      }
      lines += rows.length;
      if (rows.length < PAGE) break;
      after = rows[rows.length - 1]!.invoice_no;
    }

    out.end();
    await once(out, 'finish');
    lease.signal.throwIfAborted();
    await rename(tmp, file);
    return { status: 'done', file, lines };
  } finally {
    await lease.end();
  }
}
