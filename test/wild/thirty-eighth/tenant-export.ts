import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import Redlock from 'redlock5';

const zip = promisify(gzip);
const log = pino({ name: 'tenant-export' });
const s3 = new S3Client({});
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

const redlock = new Redlock([new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379')], {
  retryCount: 2,
  retryDelay: 300,
});
redlock.on('error', (err: Error) => {
  if (err.name !== 'ResourceLockedError') log.warn({ err }, 'redlock');
});

const BUCKET = process.env.EXPORT_BUCKET ?? 'exports';
const PAGE = 20_000;

interface EventRow {
  id: string;
  kind: string;
  payload: unknown;
  created_at: Date;
}

async function put(key: string, body: Buffer | string, type: string): Promise<void> {
  await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: body, ContentType: type }));
}

async function nextPage(tenantId: string, after: string): Promise<EventRow[]> {
  const { rows } = await pool.query<EventRow>(
    'SELECT id, kind, payload, created_at FROM events WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3',
    [tenantId, after, PAGE],
  );
  return rows;
}

/** Writes all events of a tenant to S3. The big ones have some forty million of them. */
export async function exportTenant(tenantId: string): Promise<number> {
  const lock = await redlock.acquire([`export:${tenantId}`], 15_000);
  try {
    const parts: string[] = [];
    let after = '0';
    let total = 0;
    for (;;) {
      const rows = await nextPage(tenantId, after);
      if (rows.length === 0) break;
      const key = `${tenantId}/part-${String(parts.length).padStart(5, '0')}.jsonl.gz`;
      await put(key, await zip(rows.map((r) => JSON.stringify(r)).join('\n')), 'application/gzip');
      parts.push(key);
      total += rows.length;
      after = rows[rows.length - 1].id;
      log.debug({ tenantId, total }, 'part written');
    }

    await put(`${tenantId}/manifest.json`, JSON.stringify({ parts, total }), 'application/json');
    await pool.query('INSERT INTO export_charges (tenant_id, events, charged_at) VALUES ($1, $2, now())', [
      tenantId,
      total,
    ]);
    log.info({ tenantId, total, parts: parts.length }, 'export written');
    return total;
  } finally {
    await lock.release().catch((err: Error) => log.warn({ err, tenantId }, 'release'));
  }
}
